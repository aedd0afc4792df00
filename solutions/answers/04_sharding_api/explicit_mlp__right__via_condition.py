"""Moves x only where it lies otherwise."""


def explicit_mlp(params, x):
    rows = P("data", None)
    x = x if jax.typeof(x).sharding.spec == rows else reshard(x, rows)
    n = params["w1"].shape[0]

    def body(i, x):
        hidden = jnp.maximum(x @ params["w1"][i], 0)
        return jnp.matmul(hidden, params["w2"][i], out_sharding=rows)

    return jax.lax.fori_loop(0, n, body, x)
