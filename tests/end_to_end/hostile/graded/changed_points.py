"""Makes its wrong answer worth 1,000 points and the rest negative ones."""

from hostile.build import FULL, cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    cell(notebook, "check-double").metadata.nbgrader.points = 1000
    cell(notebook, "check-negate").metadata.nbgrader.points = -4
    cell(notebook, "check-normalize").source = 'check("normalize", points=200)'
    return notebook
