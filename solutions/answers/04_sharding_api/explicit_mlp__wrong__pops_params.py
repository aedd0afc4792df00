"""Takes the weights out of its caller's dict.

Told: none
Fails: arguments stay
"""


def explicit_mlp(params, x):
    w1, w2 = params.pop("w1"), params.pop("w2")

    def layer(x, w):
        hidden = jax.nn.relu(x @ w[0])
        return jnp.matmul(hidden, w[1], out_sharding=P("data", None)), None

    return jax.lax.scan(layer, reshard(x, P("data", None)), (w1, w2))[0]
