"""An exercise's cell twice, metadata and all: copy and paste in JupyterLab."""

import copy

from hostile.build import FULL, cell, solved

STATUS = "GRADED_WITH_NOTE"
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    second = copy.deepcopy(cell(notebook, "double"))
    second.id = "second"
    notebook.cells.append(second)
    return notebook
