"""No metadata and no marker comments: answers are known by their functions' names."""

from hostile.build import FULL, forget, solved

STATUS = "GRADED_WITH_NOTE"
POINTS = FULL


def submission(lesson):
    notebook = forget(solved(lesson))
    for cell in notebook.cells:
        if cell.source.startswith("# exercise: "):
            cell.source = cell.source.partition("\n")[2]
    return notebook
