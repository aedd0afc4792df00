"""Makes a gradient that overflowed finite, without a word.

Told: none
Fails: the new slice; any number of devices
"""


def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    size, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    n = weights.shape[0]
    if n % size:
        raise ValueError(f"{n} rows do not divide by {size} devices")
    g = jnp.nan_to_num(lax.psum_scatter(grads, axis_name, tiled=True) / size)
    w = weights.reshape(size, n // size, *weights.shape[1:])[me]
    new = beta * velocity + g
    return lax.all_gather(w - lr * new, axis_name, tiled=True), new
