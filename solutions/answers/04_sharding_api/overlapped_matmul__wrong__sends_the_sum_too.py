"""Sends the sum, too, and adds nothing of it.

Told: none
Fails: sends wait for no product; pieces travel
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
            w, other = jax.lax.ppermute((w, result), axis_name, to_left)
            result += 0 * other
    return result
