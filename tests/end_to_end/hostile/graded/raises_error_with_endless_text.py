"""Raises an error whose text takes for ever."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
SLOW = True

DOUBLE = """
class Endless(Exception):
    def __str__(self):
        while True:
            pass


def double(x):
    raise Endless
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
