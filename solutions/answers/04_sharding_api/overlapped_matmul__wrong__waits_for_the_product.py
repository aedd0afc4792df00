"""A barrier keeps each send behind its product.

Told: none
Fails: sends wait for no product
"""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            result, w = jax.lax.optimization_barrier((result, w))
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result
