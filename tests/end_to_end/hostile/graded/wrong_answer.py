"""A plain mistake in one exercise."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    return solved(lesson, double="def double(x):\n    return x**2")
