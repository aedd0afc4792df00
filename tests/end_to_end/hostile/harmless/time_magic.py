"""Exercises below %%time and %%capture: both run the cell in the notebook."""

from hostile.build import FULL, cell, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    for name, magic in (("double", "%%time"), ("normalize", "%%capture printed")):
        cell(notebook, name).source = f"{magic}\n{cell(notebook, name).source}"
    return notebook
