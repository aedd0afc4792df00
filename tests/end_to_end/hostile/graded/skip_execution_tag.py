"""Tags its checks as cells not to run: stock nbgrader takes silence for a pass."""

from hostile.build import FULL, cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    cell(notebook, "check-double").metadata.tags = ["skip-execution"]
    cell(notebook, "double").metadata.tags = ["skip-execution"]
    return notebook
