"""Multiplies each piece by all columns, and takes what belongs to it.

Told: none
Fails: never the whole; no extra arithmetic
"""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    parts = x.reshape(len(x), num_devices, size)
    result = 0
    for step in range(num_devices):
        products = jnp.einsum("mdk,kn->dmn", parts, w)
        result += products[(device + step) % num_devices]
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result
