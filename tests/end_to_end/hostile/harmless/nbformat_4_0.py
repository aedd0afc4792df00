"""The oldest minor version of format 4."""

from hostile.build import FULL, minor, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    return minor(solved(lesson), 0)
