"""Every grade id is renamed: answers are known by the comment in their first line."""

from hostile.build import FULL, nbgrader_metadata, solved

POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"new-{number}"
        if nbgrader_metadata(cell):
            cell.metadata.nbgrader.grade_id += "-copy"
    return notebook
