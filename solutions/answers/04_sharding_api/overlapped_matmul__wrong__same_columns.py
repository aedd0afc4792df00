"""Takes the columns of its own piece for all pieces.

Told: all pieces met the same columns of x
Fails: the product
"""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = device * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result
