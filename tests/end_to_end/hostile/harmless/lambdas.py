"""Functions by assignment."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    double = "double = lambda x: 2 * x"
    return solved(lesson, double=double, negate="negate = lambda x: -x")
