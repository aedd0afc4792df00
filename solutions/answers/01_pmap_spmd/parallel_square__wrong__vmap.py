"""Takes vmap for pmap: the same numbers, one device."""


def parallel_square(x):
    return jax.vmap(lambda row: row**2)(x)
