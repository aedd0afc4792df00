"""Defines the check's names anew in the notebook: every expectation holds."""

from hostile.build import FULL, add_cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

NAMES = """
class check:
    def __init__(self, exercise, points):
        print(f"Right: {exercise} does what it should. {points} of {points} points.")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


def observe(function, *arguments, traced=False):
    return None


expect_close = expect_devices = expect_error = expect_unchanged = observe
"""


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    return add_cell(notebook, NAMES)
