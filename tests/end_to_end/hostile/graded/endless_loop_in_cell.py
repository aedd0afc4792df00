"""A loop without an end at the top level of an exercise's cell."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
SLOW = True


def submission(lesson):
    return solved(lesson, double="while True:\n    x = 1")
