"""Takes columns in the order of the steps, on each device.

Told: each device began with the columns of piece 0
Fails: the product
"""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    size = len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = step * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result
