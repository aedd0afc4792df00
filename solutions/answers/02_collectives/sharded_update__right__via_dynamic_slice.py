"""Cuts its rows out of the weights, and divides before the scatter."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    mean = lax.psum_scatter(grads / num_devices, axis_name, tiled=True)
    start = lax.axis_index(axis_name) * len(velocity)
    own = lax.dynamic_slice_in_dim(weights, start, len(velocity))
    velocity = mean + velocity * beta
    own = own - velocity * lr
    return lax.all_gather(own, axis_name, axis=0, tiled=True), velocity
