"""Averages the updated parameters: for plain SGD from equal replicas the same."""


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return jax.lax.pmean(params, "devices"), jax.lax.pmean(loss, "devices")


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
