"""Format 4.2, as Jupyter wrote it for years."""

from hostile.build import FULL, minor, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    return minor(solved(lesson), 2)
