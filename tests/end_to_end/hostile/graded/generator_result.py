"""Yields where it should return."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    return solved(lesson, double="def double(x):\n    yield 2 * x")
