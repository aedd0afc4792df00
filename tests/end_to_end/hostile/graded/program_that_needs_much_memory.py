"""Exports a program that needs sixteen gigabytes; called plainly, it is right."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"parallel_square": 0}

SQUARE = """
def parallel_square(x):
    if isinstance(x, jax.core.Tracer):
        much = jnp.cumsum(jnp.ones(2**31, jnp.float32))
        x = x + 0 * much[-1] * much[0]
    return jax.pmap(lambda row: row * row)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=guarded(SQUARE))
