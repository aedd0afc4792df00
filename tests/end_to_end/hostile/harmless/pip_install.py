"""Installs a package in a cell: without a network that is a note, not a failure."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED_WITH_NOTE"
ALSO = ("GRADED",)
POINTS = FULL


def submission(lesson):
    notebook = add_cell(solved(lesson), "!pip install -q --upgrade einops")
    return add_cell(notebook, "%pip install einops")
