"""Windows line ends, in the file and inside the cells."""

from hostile.build import FULL, dumps, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    for cell in notebook.cells:
        cell.source = cell.source.replace("\n", "\r\n")
    return dumps(notebook).replace(b"\n", b"\r\n")
