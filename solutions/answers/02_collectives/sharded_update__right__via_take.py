"""Takes its rows by their numbers."""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    size = len(weights) // num_devices
    rows = lax.axis_index(axis_name) * size + jnp.arange(size)
    total = lax.psum_scatter(grads, axis_name, scatter_dimension=0, tiled=True)
    velocity = beta * velocity + total / num_devices
    own = jnp.take(weights, rows, axis=0) - lr * velocity
    return lax.all_gather(own, axis_name, tiled=True), velocity
