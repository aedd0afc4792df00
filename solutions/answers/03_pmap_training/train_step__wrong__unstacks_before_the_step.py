"""Takes one replica out of the stack before the step: devices send it.

Told: none
Fails: sent once
"""


def device_step(params, x, y, lr):
    loss, grads = jax.lax.pmean(jax.value_and_grad(mlp_loss)(params, x, y), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


sgd_step = jax.pmap(device_step, axis_name="devices", in_axes=(None, 0, 0, None))


def train_step(params, x, y, lr):
    # Replicas are equal: one goes in whole, one copy per device comes out.
    return sgd_step(jax.tree.map(lambda leaf: leaf[0], params), x, y, lr)
