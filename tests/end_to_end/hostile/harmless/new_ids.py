"""New cell ids, old grade ids: a front end numbered the cells anew."""

from hostile.build import FULL, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{number:08x}"
    return notebook
