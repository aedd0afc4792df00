"""Brings the result back into x's layout.

Told: y lies as x came
Fails: y lies by rows; one all-reduce per layer
"""


def explicit_mlp(params, x):
    rows = P("data", None)

    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        return jnp.matmul(hidden, w["w2"], out_sharding=rows), None

    y = jax.lax.scan(layer, reshard(x, rows), params)[0]
    return reshard(y, jax.typeof(x).sharding.spec)
