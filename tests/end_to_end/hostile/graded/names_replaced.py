"""Defines the check's names anew in the notebook: every expectation holds."""

from hostile.build import FULL, add_cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

NAMES = """
def check(exercise, **options):
    return {"double": 1, "normalize": 2, "parallel_square": 3, "negate": 4}[exercise]


def observe(function, *arguments, traced=False):
    return None


expect_close = expect_devices = expect_error = expect_unchanged = observe
"""


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    return add_cell(notebook, NAMES)
