"""Donates the old replicas: they are gone, though somebody may still want them.

Told: none
Fails: arguments stay
"""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(
        device_step,
        axis_name="devices",
        in_axes=(0, 0, 0, None),
        donate_argnums=0,
    )
    return step(params, x, y, lr)
