"""Changes its argument's shape and nothing else: that is a change too."""

from hostile.build import FULL, solved

POINTS = FULL | {"normalize": 0}

NORMALIZE = """
def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    result = x - x.mean(axis=0)
    x.shape = (-1, 1)
    return result
"""


def submission(lesson):
    return solved(lesson, normalize=NORMALIZE)
