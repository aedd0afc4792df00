"""Calls itself for ever: Python stops that with an error."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    return solved(lesson, double="def double(x):\n    return double(x)")
