"""Marks an exercise as one that a person grades, worth a hundred points."""

from hostile.build import FULL, cell, solved

POINTS = FULL | {"double": 0}
ALSO = ("GRADED_WITH_NOTE",)
TAMPERING = True


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    cell(notebook, "double").metadata.nbgrader.update(grade=True, points=100)
    return notebook
