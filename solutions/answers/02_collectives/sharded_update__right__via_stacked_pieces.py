"""Scatters and gathers along an axis of its own, without tiles."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    pieces = jnp.reshape(grads, (num_devices, *velocity.shape))
    mean = lax.psum_scatter(pieces, axis_name) / num_devices
    own = jnp.reshape(weights, pieces.shape)[lax.axis_index(axis_name)]
    velocity = beta * velocity + mean
    return lax.all_gather(own - lr * velocity, axis_name).reshape(grads.shape), velocity
