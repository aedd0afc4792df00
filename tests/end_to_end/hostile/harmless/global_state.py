"""Answers that count their calls in a global and keep earlier results."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
calls, known = 0, {}


def double(x):
    global calls
    calls += 1
    if x not in known:
        known[x] = x + x
    return known[x]
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
