"""Prints from inside the mapped function, by the means that JAX offers."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

SQUARE = """
def parallel_square(x):
    def square(row):
        jax.debug.print("row {}", row)
        return row * row

    return jax.pmap(square)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
