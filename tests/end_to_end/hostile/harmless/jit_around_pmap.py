"""The whole function under jax.jit, which one learns first."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

SQUARE = """
@jax.jit
def parallel_square(x):
    return jax.pmap(lambda row: jnp.square(row))(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
