"""Forgets the all-reduce in a shard_map: each device goes on with its part.

Told: none
Fails: the layers' result; x may lie in any way; one all-reduce per layer
"""


def explicit_mlp(params, x):
    def local(w1, w2, x):
        for one, two in zip(w1, w2, strict=True):
            x = jax.nn.relu(x @ one) @ two
        return x

    specs = P(None, None, "model"), P(None, "model", None), P("data", None)
    run = jax.shard_map(
        local, in_specs=specs, out_specs=P("data", None), check_vma=False
    )
    return run(params["w1"], params["w2"], reshard(x, P("data", None)))
