"""Takes the mean of the parts, which are parts of a sum.

Told: the parts of a sum were averaged
Fails: the layers' result; x may lie in any way
"""


def explicit_mlp(params, x):
    def local(w1, w2, x):
        for one, two in zip(w1, w2, strict=True):
            x = jax.lax.pmean(jax.nn.relu(x @ one) @ two, "model")
        return x

    specs = P(None, None, "model"), P(None, "model", None), P("data", None)
    run = jax.shard_map(local, in_specs=specs, out_specs=P("data", None))
    return run(params["w1"], params["w2"], reshard(x, P("data", None)))
