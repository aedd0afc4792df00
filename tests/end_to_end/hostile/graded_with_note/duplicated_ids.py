"""All cells share one id after a merge by a script; the grade ids are whole."""

from hostile.build import FULL, solved

POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    for cell in notebook.cells:
        cell.id = "same"
    return notebook
