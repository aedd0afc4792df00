"""Takes the axis's name for granted.

Told: a collective names an axis that nobody bound: use the argument axis_name, or the
name that pmap was given
Fails: any axis
"""


def overlapped_matmul(x, w, axis_name):
    num_devices = jax.lax.axis_size("i")
    device, size = jax.lax.axis_index("i"), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, "i", to_left)
    return result
