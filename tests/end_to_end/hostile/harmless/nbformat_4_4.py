"""Format 4.4, the last one without cell ids."""

from hostile.build import FULL, minor, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    return minor(solved(lesson), 4)
