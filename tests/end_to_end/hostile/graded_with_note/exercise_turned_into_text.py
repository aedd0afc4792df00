"""An answer in a text cell: the shortcut for Markdown was hit by accident."""

import nbformat
from hostile.build import FULL, cell, solved

POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    answered = cell(notebook, "double")
    text = nbformat.v4.new_markdown_cell(answered.source, metadata=answered.metadata)
    notebook.cells[notebook.cells.index(answered)] = text
    return notebook
