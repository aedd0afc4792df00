"""Replaces the module's function that turns results into plain values."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
from coursekit import observe as machinery

plain = machinery.plain
machinery.plain = lambda value: 6 if value == "double" else plain(value)


def double(x):
    return "double"
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
