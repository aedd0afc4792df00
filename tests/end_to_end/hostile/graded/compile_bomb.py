"""Keeps the compiler busy: each of 40 small functions calls the one before it twice."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"parallel_square": 0}
SLOW = True

SQUARE = """
def parallel_square(x):
    def run(row):
        return row * row

    if isinstance(x, jax.core.Tracer):
        twice = jnp.sin
        for _ in range(40):
            twice = jax.jit(lambda y, inner=twice: inner(inner(y)), inline=False)
        x = x + 0 * twice(x)
    return jax.pmap(run)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=guarded(SQUARE))
