"""Returns the mapped function instead of calling it.

Told: none
"""


def parallel_square(x):
    return jax.pmap(lambda row: row**2)
