"""Turns the check of a wrong answer into a text cell, which nobody runs."""

from hostile.build import FULL, cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    check = cell(notebook, "check-double")
    check.cell_type = "markdown"
    del check["outputs"], check["execution_count"]
    return notebook
