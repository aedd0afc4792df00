"""Counts devices from the end.

Told: none
Fails: a row on each device
"""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    devices = jax.devices()[-len(x) :]
    step = jax.pmap(
        device_step, axis_name="devices", in_axes=(0, 0, 0, None), devices=devices
    )
    return step(params, x, y, lr)
