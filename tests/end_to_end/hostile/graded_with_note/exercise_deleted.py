"""One exercise's cell is gone: a missing cell is never a pass."""

from hostile.build import FULL, cell, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    notebook = solved(lesson)
    notebook.cells.remove(cell(notebook, "double"))
    return notebook
