"""Takes vmap for pmap: the same numbers, one device.

Told: jax.pmap runs on a device per row; here is one
Fails: row d on device d
"""


def parallel_square(x):
    return jax.vmap(lambda row: row**2)(x)
