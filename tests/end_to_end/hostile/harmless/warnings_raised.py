"""Answers that warn."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
import warnings


def double(x):
    warnings.warn("double is deprecated", DeprecationWarning, stacklevel=1)
    warnings.warn("and slow", stacklevel=1)
    return x + x
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
