"""Updates in a compiled function of its own."""

from functools import partial


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    num_devices = lax.axis_size(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows, not divisible by {num_devices}")
    scatter = partial(lax.psum_scatter, axis_name=axis_name, tiled=True)

    @jax.jit
    def update(own, velocity, grad):
        velocity = beta * velocity + grad / num_devices
        return own - lr * velocity, velocity

    own = jnp.split(weights, num_devices)
    own = jnp.stack(own)[lax.axis_index(axis_name)]
    own, velocity = update(own, velocity, scatter(grads))
    return lax.all_gather(own, axis_name, tiled=True), velocity
