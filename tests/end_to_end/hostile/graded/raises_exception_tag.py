"""Tags every cell as one that may fail, and its own as one to remove."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    raise ValueError(x)")
    for cell in notebook.cells:
        cell.metadata.tags = ["raises-exception", "remove-cell", "hide-output"]
    return notebook
