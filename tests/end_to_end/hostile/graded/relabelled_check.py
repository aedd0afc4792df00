"""Marks a check as an exercise of the learner's, and empties it."""

from hostile.build import FULL, cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    check = cell(notebook, "check-double")
    check.metadata.nbgrader.update(solution=True, locked=False)
    check.source = "pass"
    return notebook
