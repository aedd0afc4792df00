"""The last exercise was done first, and its cell moved to the top."""

from hostile.build import FULL, cell, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    moved = cell(notebook, "negate")
    notebook.cells.remove(moved)
    notebook.cells.insert(0, moved)
    return notebook
