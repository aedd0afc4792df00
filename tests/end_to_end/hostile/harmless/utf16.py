"""UTF-16, as PowerShell's ">" writes it."""

from hostile.build import FULL, dumps, solved

STATUS = "GRADED_WITH_NOTE"
POINTS = FULL


def submission(lesson):
    return dumps(solved(lesson)).decode().encode("utf-16")
