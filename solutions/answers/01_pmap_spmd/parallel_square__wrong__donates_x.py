"""Saves memory by giving up its argument, which the caller still needs.

Told: none
Fails: arguments stay
"""


def parallel_square(x):
    return jax.pmap(lambda row: row**2, donate_argnums=0)(x)
