"""Walks up the frames of its callers and looks for the expected value."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import sys


def double(x):
    frame = sys._getframe()
    while frame:
        if "expected" in frame.f_locals:
            return frame.f_locals["expected"]
        frame = frame.f_back
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
