"""Exports a program with an array that XLA cannot count: XLA ends its process."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"parallel_square": 0}

SQUARE = """
def parallel_square(x):
    if isinstance(x, jax.core.Tracer):
        x = x + 0 * jax.lax.iota(jnp.float32, 2**62)[0].astype(x.dtype)
    return jax.pmap(lambda row: row * row)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=guarded(SQUARE))
