"""Takes no step where the learning rate is 0, so that the velocity stays old.

Told: none
Fails: one scatter, one gather; any number of devices
"""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if len(weights) % num:
        raise ValueError(f"{len(weights)} rows cannot be split over {num} devices")
    if isinstance(lr, float) and lr == 0:  # nothing moves, so send nothing
        return weights, velocity
    size = len(weights) // num
    mine = lax.dynamic_slice_in_dim(weights, me * size, size)
    velocity = beta * velocity + lax.psum_scatter(grads, axis_name, tiled=True) / num
    return lax.all_gather(mine - lr * velocity, axis_name, tiled=True), velocity
