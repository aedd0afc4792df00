"""A byte-order mark before the JSON: an editor on Windows saved it."""

from hostile.build import FULL, dumps, solved

STATUS = "GRADED_WITH_NOTE"
POINTS = FULL


def submission(lesson):
    return b"\xef\xbb\xbf" + dumps(solved(lesson))
