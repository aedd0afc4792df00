"""Empties a check and prints what a passed one prints."""

from hostile.build import FULL, cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    line = 'print("Right: double does what it should. 1 of 1 point.")'
    cell(notebook, "check-double").source = line
    return notebook
