"""Sends the gradients in bfloat16.

Told: none
Fails: the new slice; the new weights
"""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads.astype(jnp.bfloat16), axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    new = lax.all_gather(own - lr * velocity, axis_name, tiled=True)
    return new.astype(jnp.float32), velocity.astype(jnp.float32)
