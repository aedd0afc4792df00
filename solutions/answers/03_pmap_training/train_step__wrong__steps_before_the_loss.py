"""Returns the loss after the step.

Told: that is the loss after the step
Fails: the loss before
"""


def device_step(params, x, y, lr):
    grads = jax.lax.pmean(jax.grad(mlp_loss)(params, x, y), "devices")
    params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return params, jax.lax.pmean(mlp_loss(params, x, y), "devices")


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
