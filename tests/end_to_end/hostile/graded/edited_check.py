"""Empties a check, prints what a passed one prints, and returns all its points."""

from hostile.build import FULL, cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    claim = 'print("double  right  1 of 1 point")\n1'
    cell(notebook, "check-double").source = claim
    return notebook
