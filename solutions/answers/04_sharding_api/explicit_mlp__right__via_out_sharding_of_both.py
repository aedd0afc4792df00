"""Leaves x split along W to the first product, whose out_sharding moves it."""


def explicit_mlp(params, x):
    if jax.typeof(x).sharding.spec[0] != "data":
        x = reshard(x, P("data", None))
    for i in range(len(params["w1"])):
        h = jax.nn.relu(
            jnp.einsum("bw,wh->bh", x, params["w1"][i], out_sharding=P("data", "model"))
        )
        x = jnp.matmul(h, params["w2"][i], out_sharding=P("data", None))
    return x
