"""Prints left in from the search for a mistake."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
def double(x):
    print("x =", x)
    print(*range(200), sep="\\n")
    return x + x
"""
SQUARE = """
def parallel_square(x):
    print(x, x.shape, jax.devices())
    return jax.pmap(lambda row: row * row)(x)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE, parallel_square=SQUARE)
