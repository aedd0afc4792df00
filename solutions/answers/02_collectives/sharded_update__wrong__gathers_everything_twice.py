"""Gathers the velocity, too, which nobody needs whole.

Told: none
Fails: the new slice; one scatter, one gather; any number of devices
"""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    whole = lax.all_gather(velocity, axis_name, tiled=True)
    own = weights.reshape(num_devices, *velocity.shape)[lax.axis_index(axis_name)]
    own = own - lr * velocity
    return lax.all_gather(own, axis_name, tiled=True) + 0 * whole, velocity
