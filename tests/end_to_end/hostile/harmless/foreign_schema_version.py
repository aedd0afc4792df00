"""Marks of other versions of nbgrader, with keys that ours does not know."""

from hostile.build import FULL, nbgrader_metadata, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    for number, cell in enumerate(notebook.cells):
        if nbgrader_metadata(cell):
            cell.metadata.nbgrader.schema_version = (0, 1, 2, 99, "four")[number % 5]
            cell.metadata.nbgrader.colour = "blue"
    return notebook
