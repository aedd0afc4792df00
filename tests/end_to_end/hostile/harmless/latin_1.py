"""Latin 1 in place of UTF-8: an old editor saved it; only a comment is lost."""

from hostile.build import FULL, dumps, solved

STATUS = "GRADED_WITH_NOTE"
POINTS = FULL


def submission(lesson):
    double = "def double(x):\n    return x + x  # d\xe9j\xe0 vu"
    return dumps(solved(lesson, double=double)).decode().encode("latin-1")
