"""Keeps the old parameters after a loss of nan: one more all-reduce, outside.

Told: none
Fails: sent once
"""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


pmapped_step = jax.pmap(device_step, "devices", in_axes=(0, 0, 0, None))


@jax.jit
def keep_if(loss, new, old):
    fine = jnp.isfinite(loss).all()
    return jax.tree.map(lambda a, b: jnp.where(fine, a, b), new, old)


def train_step(params, x, y, lr):
    new, loss = pmapped_step(params, x, y, lr)
    return keep_if(loss, new, params), loss
