"""Deletes the check of a wrong answer."""

from hostile.build import FULL, cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    notebook.cells.remove(cell(notebook, "check-double"))
    return notebook
