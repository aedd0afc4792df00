"""Asks the weights' types where the hidden units lie, and reshards if there is need."""


def explicit_mlp(params, x):
    model = jax.typeof(params["w1"]).sharding.spec[2]
    [data] = [name for name in ("data", "model") if name != model]
    if jax.typeof(x).sharding.spec != P(data, None):
        x = reshard(x, P(data, None))

    def layer(x, w):
        first = jnp.matmul(x, w["w1"], out_sharding=P(data, model))
        return jnp.matmul(jax.nn.relu(first), w["w2"], out_sharding=P(data, None)), ()

    x, _ = jax.lax.scan(layer, x, params)
    return x
