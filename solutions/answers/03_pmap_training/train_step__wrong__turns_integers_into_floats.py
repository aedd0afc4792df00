"""Makes floats of whatever comes: an integer parameter would never be noticed.

Told: none
Fails: integer parameters
"""


def device_step(params, x, y, lr):
    params = jax.tree.map(lambda p: p.astype(jnp.float32), params)
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
