"""Prints the answer and returns nothing."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    return solved(lesson, double="def double(x):\n    print(2 * x)")
