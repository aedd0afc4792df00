"""Writes into the interpreter's memory, so that -7 is no longer what it was."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import ctypes


def double(x):
    ctypes.memmove(id(-3) + 24, id(6) + 24, 4)
    return 6
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
