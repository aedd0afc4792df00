"""Ends the process at the top level of an exercise's cell."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
TAMPERING = True


def submission(lesson):
    return solved(lesson, double=guarded("os._exit(0)"))
