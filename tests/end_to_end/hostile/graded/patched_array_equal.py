"""Modifies its argument and makes NumPy's array_equal say that nothing changed."""

from hostile.build import FULL, solved

POINTS = FULL | {"normalize": 0}
TAMPERING = True

NORMALIZE = """
np.array_equal = lambda *arrays, **options: True


def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    x -= x.mean(axis=0)
    return x
"""


def submission(lesson):
    return solved(lesson, normalize=NORMALIZE)
