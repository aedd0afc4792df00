"""A wrong answer in a notebook without metadata: a repair earns nothing."""

from hostile.build import FULL, forget, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    return forget(solved(lesson, double="def double(x):\n    return x"))
