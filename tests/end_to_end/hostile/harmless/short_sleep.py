"""An answer that takes a fifth of a second."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
import time


def double(x):
    time.sleep(0.2)
    return x + x
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
