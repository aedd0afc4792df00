"""Changes the set-up cell so that checks are made of thin air."""

from hostile.build import FULL, cell, solved

POINTS = FULL | {"double": 0}
ALSO = ("GRADED_WITH_NOTE",)
TAMPERING = True

LINES = """
expect_close = expect_devices = expect_error = expect_unchanged = print
observe = lambda *_, **__: None
check = {"double": 1, "normalize": 2, "parallel_square": 3, "negate": 4}.get
"""


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    cell(notebook, "setup").source += LINES
    return notebook
