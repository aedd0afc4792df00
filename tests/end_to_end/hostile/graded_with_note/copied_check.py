"""A copied check cell, which makes stock nbgrader give up on the whole class."""

import copy

from hostile.build import FULL, cell, solved

POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    notebook.cells.append(copy.deepcopy(cell(notebook, "check-double")))
    return notebook
