"""Looks for integers among the weights alone: integer biases are cast, and nothing
raises.

Told: none
Fails: integer parameters
"""


def device_step(params, x, y, lr):
    params = jax.tree.map(lambda p: p.astype(jnp.float32), params)
    loss, grads = jax.lax.pmean(jax.value_and_grad(mlp_loss)(params, x, y), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


_parallel = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))


def train_step(params, x, y, lr):
    for name in ("w1", "w2"):
        if not jnp.issubdtype(params[name].dtype, jnp.floating):
            raise TypeError(f"{name} must be of floats, not {params[name].dtype}")
    return _parallel(params, x, y, lr)
