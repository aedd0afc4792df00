"""Code only: all text cells were deleted to have less to scroll."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return notebook
