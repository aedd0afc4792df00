"""Adds up the devices' numbers of rows, which are known: a number more to send.

Told: none
Fails: sent once
"""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    rows = jnp.sum(jnp.ones_like(y))
    total = jax.lax.psum(rows, "devices")
    share = jax.tree.map(lambda leaf: leaf * (rows / total), (loss, grads))
    loss, grads = jax.lax.psum(share, "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
