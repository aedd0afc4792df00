"""Forgets the devices: jit alone computes on the first.

Told: none
Fails: own rows only; whole on each device; sent once
"""


@jax.jit
def jitted_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def shard_map_step(params, x, y, lr, num_devices):
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
    return jitted_step(params, x, y, lr)
