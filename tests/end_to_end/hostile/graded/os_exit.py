"""Ends the process with success as soon as it is called: silence is no pass."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
TAMPERING = True


def submission(lesson):
    return solved(lesson, double=guarded("def double(x):\n    os._exit(0)"))
