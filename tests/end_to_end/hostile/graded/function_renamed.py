"""The function got a better name, so the one that was asked for is missing."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    return solved(lesson, double="def doubled(x):\n    return 2 * x")
