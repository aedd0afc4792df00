"""NaN and infinities in the metadata, which are no JSON, as points too."""

from hostile.build import FULL, cell, solved

POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    notebook.metadata.widgets = {"loss": float("nan"), "lr": float("-inf")}
    cell(notebook, "check-double").metadata.nbgrader.points = float("inf")
    return notebook
