"""A right notebook that was saved without being run."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    return solved(lesson)
