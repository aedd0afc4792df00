"""Hands the targets on to be taken over.

Told: none
Fails: arguments stay
"""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


_parallel = jax.pmap(device_step, "devices", in_axes=(0, 0, 0, None), donate_argnums=2)


def train_step(params, x, y, lr):
    return _parallel(params, x, y, lr)
