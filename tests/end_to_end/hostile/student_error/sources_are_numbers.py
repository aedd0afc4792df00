"""A notebook in which each cell's text is a number."""

from hostile.build import solved

POINTS = {}


def submission(lesson):
    notebook = solved(lesson)
    for number, cell in enumerate(notebook.cells):
        cell.source = number
    return notebook
