"""Subtracts in place, which the statement forbids."""

from hostile.build import FULL, solved

POINTS = FULL | {"normalize": 0}

NORMALIZE = """
def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    x -= x.mean(axis=0)
    return x
"""


def submission(lesson):
    return solved(lesson, normalize=NORMALIZE)
