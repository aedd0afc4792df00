"""Lets the compiler decide inside, with constraints as on Auto axes."""


def explicit_mlp(params, x):
    fix = jax.lax.with_sharding_constraint

    @functools.partial(auto_axes, out_sharding=P("data", None))
    def run(params, x):
        def layer(x, w):
            hidden = fix(jax.nn.relu(x @ w["w1"]), P("data", "model"))
            return fix(hidden @ w["w2"], P("data", None)), None

        return jax.lax.scan(layer, x, params)[0]

    return run(params, reshard(x, P("data", None)))
