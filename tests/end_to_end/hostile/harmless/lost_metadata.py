"""No metadata at all and new ids: answers are known by their first line."""

from hostile.build import FULL, forget, solved

STATUS = "GRADED_WITH_NOTE"
POINTS = FULL


def submission(lesson):
    return forget(solved(lesson))
