"""Knows weights with two axes only.

Told: none
Fails: the new slice; the new weights
"""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    rows, columns = velocity.shape
    start = lax.axis_index(axis_name) * rows
    own = lax.dynamic_slice(weights, (start, 0), (rows, columns))
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity
