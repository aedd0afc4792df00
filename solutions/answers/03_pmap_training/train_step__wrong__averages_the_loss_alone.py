"""Thinks that an averaged loss has averaged gradients: in pmap it has not.

Told: only a loss is sent: in pmap, its pmean leaves each gradient as it was
Fails: one step of SGD; replicas agree
"""


def device_step(params, x, y, lr):
    def mean_loss(params):
        return jax.lax.pmean(mlp_loss(params, x, y), "devices")

    loss, grads = jax.value_and_grad(mean_loss)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
