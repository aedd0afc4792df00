"""Returns a whole number of 100,000 digits, which Python refuses to print."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    return solved(lesson, double="def double(x):\n    return 10**100_000")
