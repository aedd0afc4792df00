"""A loop without an end, inside the function."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
SLOW = True


def submission(lesson):
    return solved(lesson, double="def double(x):\n    while True:\n        pass")
