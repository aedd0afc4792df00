"""A first attempt was kept above, and its copy holds the right one: the last counts."""

import copy

from hostile.build import FULL, cell, solved

POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    answered = cell(notebook, "double")
    first = copy.deepcopy(answered)
    first.id, first.source = "first", "# exercise: double\ndef double(x):\n    return x"
    notebook.cells.insert(notebook.cells.index(answered), first)
    return notebook
