"""A notebook that Colab saved: its metadata on each cell, a badge, no cell ids."""

import nbformat
from hostile.build import FULL, minor, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL

USER = {"displayName": "Ada Lovelace", "userId": "01234567890"}
BADGE = '<a href="https://colab.research.google.com/x"><img src="badge.svg"/></a>'


def submission(lesson):
    notebook = minor(solved(lesson), 0)
    notebook.metadata.update(accelerator="TPU", colab={"provenance": []})
    for number, cell in enumerate(notebook.cells):
        ran = {"status": "ok", "timestamp": 1700000000000 + number, "user": USER}
        cell.metadata.update(id=f"x{number}", executionInfo=ran)
        cell.metadata.update(colab={"base_uri": "https://localhost:8080/"})
    cell = nbformat.v4.new_markdown_cell(BADGE, metadata={"id": "view-in-github"})
    cell.pop("id", None)
    notebook.cells.insert(0, cell)
    return notebook
