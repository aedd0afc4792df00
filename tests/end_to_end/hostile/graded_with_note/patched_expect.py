"""Replaces the comparison inside the module whose functions the checks call."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
from coursekit import expect


def double(x):
    return 0


expect.difference = lambda *rest: None
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
