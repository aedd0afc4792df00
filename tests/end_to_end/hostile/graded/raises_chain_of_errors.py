"""Raises an error that is its own cause, inside groups 500 deep."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    error = ValueError("first")
    error.__cause__ = KeyError("second")
    error.__cause__.__cause__ = error
    for number in range(500):
        error = ExceptionGroup(f"group {number}", [error, ValueError(number)])
    raise error
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
