"""Gathers the steps of the slices and takes them off the whole weights."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    steps = lax.all_gather(lr * velocity, axis_name, tiled=True)
    return weights - steps, velocity
