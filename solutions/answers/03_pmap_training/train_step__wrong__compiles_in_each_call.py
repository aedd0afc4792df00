"""Defines the device's function inside: pmap meets a new one in each call.

Told: none
Fails: one program
"""


def train_step(params, x, y, lr):
    def device_step(params, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        loss, grads = jax.lax.pmean((loss, grads), "devices")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    return jax.pmap(device_step, axis_name="devices")(params, x, y)
