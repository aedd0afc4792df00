"""Right answers; prints were added to a check, another check was deleted."""

from hostile.build import FULL, cell, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    cell(notebook, "check-double").source += "\nprint(observe(double, 4))"
    notebook.cells.remove(cell(notebook, "check-negate"))
    return notebook
