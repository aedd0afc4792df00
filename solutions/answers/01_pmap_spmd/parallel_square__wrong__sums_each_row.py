"""Confuses the square with the squared norm of a device's row.

Told: none
Fails: each number squared; shape and dtype stay
"""


def parallel_square(x):
    return jax.pmap(lambda row: (row**2).sum())(x)
