"""Splits the hidden units alone, and the rows at the end.

Told: none
Fails: own rows of own hidden units; one all-reduce per layer
"""


def explicit_mlp(params, x):
    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        return jnp.matmul(hidden, w["w2"], out_sharding=P(None, None)), None

    y = jax.lax.scan(layer, reshard(x, P(None, None)), params)[0]
    return reshard(y, P("data", None))
