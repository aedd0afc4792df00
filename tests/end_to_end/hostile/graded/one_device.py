"""Computes on one device what should run on eight."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}


def submission(lesson):
    square = "def parallel_square(x):\n    return jax.vmap(jnp.square)(x)"
    return solved(lesson, parallel_square=square)
