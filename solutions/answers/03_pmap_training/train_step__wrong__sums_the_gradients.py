"""Adds the gradients up: the learning rate grows with the number of devices.

Told: the gradients were added up: 8 times too large
Fails: one step of SGD
"""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    grads, loss = jax.lax.psum(grads, "devices"), jax.lax.pmean(loss, "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
