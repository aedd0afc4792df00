"""Right answers; prints were added to a check, another check was deleted."""

from hostile.build import FULL, cell, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    cell(notebook, "check-double").source += "\n    print(observe(double, 4))"
    notebook.cells.remove(cell(notebook, "check-negate"))
    return notebook
