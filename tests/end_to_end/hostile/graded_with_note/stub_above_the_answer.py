"""The stub was kept and copied, and the copy below it holds the answer."""

import copy

from hostile.build import FULL, cell, solved

from grader.authoring.release import release

POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    answered = cell(notebook, "double")
    stub = copy.deepcopy(cell(release(lesson), "double"))
    stub.id = "kept-stub"
    notebook.cells.insert(notebook.cells.index(answered), stub)
    return notebook
