"""Returns lists inside lists, 100,000 deep."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    result = 2 * x
    for _ in range(100_000):
        result = [result]
    return result
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
