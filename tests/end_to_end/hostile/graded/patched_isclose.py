"""Replaces NumPy's comparisons: everything is close to everything."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
def double(x):
    return 0


np.isclose = lambda a, b, **options: np.ones(np.shape(a), bool)
np.allclose = lambda *arrays, **options: True
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
