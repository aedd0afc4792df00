"""A copied check cell, which makes stock nbgrader give up on the whole class."""

import copy

from hostile.build import FULL, cell, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    again = copy.deepcopy(cell(notebook, "check-double"))
    again.id = "pasted"  # front ends give a pasted cell an id of its own
    notebook.cells.append(again)
    return notebook
