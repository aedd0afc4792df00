"""Waits for the result, as one does to measure a time."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

SQUARE = """
import time


def parallel_square(x):
    begin = time.perf_counter()
    result = jax.pmap(lambda row: row * row)(x).block_until_ready()
    print(f"{time.perf_counter() - begin:.3f} s")
    return result
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
