"""Writes the axis name of the lesson's examples into the function.

Told: a collective names an axis that nobody bound: use the argument axis_name, or the
name that pmap was given
Fails: any axis name
"""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, "i", tiled=True)
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity
