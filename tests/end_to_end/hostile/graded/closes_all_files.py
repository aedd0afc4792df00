"""Closes every file handle, the ones that carry its own answers too."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    close = "def double(x):\n    os.closerange(0, 4096)"
    return solved(lesson, double=guarded(close))
