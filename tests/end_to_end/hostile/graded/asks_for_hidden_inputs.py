"""Prints and raises what it is called with, to read it in the feedback later."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
calls = []


def double(x):
    calls.append(x)
    print("called with", calls)
    if len(calls) > 1:
        raise ValueError(f"called with {calls}")
    return 2 * x
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
