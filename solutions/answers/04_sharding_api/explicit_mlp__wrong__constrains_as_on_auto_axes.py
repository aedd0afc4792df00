"""Constrains x, which does not move it on Explicit axes.

Told: none
Fails: y lies by rows; x may lie in any way
"""


def explicit_mlp(params, x):
    x = jax.lax.with_sharding_constraint(x, P("data", None))

    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])
        return jnp.matmul(hidden, w["w2"], out_sharding=P("data", None)), None

    return jax.lax.scan(layer, x, params)[0]
