"""Adds a cell that claims to be a check of its own, worth a hundred points."""

import nbformat
from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
ALSO = ("GRADED_WITH_NOTE",)
TAMPERING = True

MARKS = {"grade": True, "grade_id": "bonus", "points": 100, "schema_version": 3}
MARKS |= {"locked": True, "solution": False, "task": False}


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    metadata = {"nbgrader": MARKS}
    notebook.cells.append(nbformat.v4.new_code_cell("pass", metadata=metadata))
    return notebook
