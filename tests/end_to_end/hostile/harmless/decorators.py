"""Answers made by decorators and by functools."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
import functools
import operator


@functools.lru_cache(maxsize=None)
def double(x):
    return x + x
"""
SQUARE = """
@jax.pmap
def parallel_square(row):
    return row * row
"""
NEGATE = """
def times(factor, x):
    return factor * x


negate = functools.partial(times, -1)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE, parallel_square=SQUARE, negate=NEGATE)
