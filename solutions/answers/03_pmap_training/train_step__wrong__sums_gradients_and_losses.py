"""Adds up instead of averaging, the losses as well.

Told: gradients and loss were added up, not averaged
Fails: one step of SGD; the loss before
"""


def device_step(params, x, y, lr):
    loss, grads = jax.lax.psum(jax.value_and_grad(mlp_loss)(params, x, y), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
