"""Aborts, as XLA does where it cannot go on."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    return solved(lesson, double=guarded("def double(x):\n    os.abort()"))
