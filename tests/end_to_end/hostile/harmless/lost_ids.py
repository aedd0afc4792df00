"""Format 4.5 without the cell ids that it demands."""

from hostile.build import FULL, minor, solved

STATUS = "GRADED_WITH_NOTE"
POINTS = FULL


def submission(lesson):
    return minor(solved(lesson), 5)
