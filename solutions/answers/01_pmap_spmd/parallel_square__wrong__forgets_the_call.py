"""Returns the mapped function instead of calling it.

Told: none
Fails: each number squared; row d on device d; shape and dtype stay
"""


def parallel_square(x):
    return jax.pmap(lambda row: row**2)
