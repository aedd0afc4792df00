"""Raises an error whose message is 100 MB long."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    raise ValueError("<b>x</b>" * (10**8 // 8))
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
