"""One huge power: it holds Python's lock in C, where no interrupt arrives."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
SLOW = True

DOUBLE = """
def double(x):
    7 ** (10**9)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
