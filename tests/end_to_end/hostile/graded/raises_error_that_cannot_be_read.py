"""Raises an error whose text raises SystemExit, whose repr is a number."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
class Unreadable(Exception):
    def __str__(self):
        raise SystemExit(0)

    __repr__ = lambda self: 7
    args = property(lambda self: 1 / 0)
    __traceback__ = property(lambda self: "none")
    __notes__ = [object()]


def double(x):
    raise Unreadable
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
