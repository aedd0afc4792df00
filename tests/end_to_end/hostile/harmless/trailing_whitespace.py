"""Blank lines and blanks at the end of every line, and around the whole cell."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    for cell in notebook.cells:
        cell.source = "\n\n" + cell.source.replace("\n", "  \t\n") + "   \n\n \n"
    return notebook
