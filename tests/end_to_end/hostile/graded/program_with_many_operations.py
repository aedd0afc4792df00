"""A Python loop inside the traced function: a program of 50,000 operations."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"parallel_square": 0}
SLOW = True

SQUARE = """
def parallel_square(x):
    def run(row):
        for number in range(50_000):
            row = row * 3 + number
        return row

    return jax.pmap(run)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=guarded(SQUARE))
