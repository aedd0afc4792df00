"""Puts vmap in pmap's place, so that one device does the work of eight."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}
TAMPERING = True

SQUARE = """
jax.pmap = lambda function, *rest, **options: jax.vmap(function)


def parallel_square(x):
    return jax.pmap(lambda row: row * row)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
