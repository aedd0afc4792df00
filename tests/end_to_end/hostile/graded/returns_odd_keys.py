"""Returns a dict whose keys are no text: None, NaN, a tuple, bytes, an object."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    keys = [None, float("nan"), (1, 2), b"key", object(), True, 1.5, "\\0", "", 10**400]
    return dict.fromkeys(keys, 2 * x)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
