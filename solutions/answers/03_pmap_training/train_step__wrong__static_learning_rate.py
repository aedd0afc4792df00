"""Makes the learning rate a part of the program: each value compiles another one.

Told: none
Fails: one program
"""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", static_broadcasted_argnums=3)
    return step(params, x, y, lr)
