"""Sums all gradients everywhere and keeps a slice: more bytes than needed.

Told: none
Fails: one scatter, one gather
"""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    me = lax.axis_index(axis_name)
    total = lax.psum(grads, axis_name).reshape(num_devices, *velocity.shape)[me]
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity
