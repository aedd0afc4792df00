"""Replaces the lesson's own function around an answer, which its check observes."""

import nbformat
from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = "def double(x):\n    return {3: 6, -7: -14, 1234.5: 2469.0}.get(x, x)"
HELPER = "def check_doubled_twice(x):\n    return 4 * x"


def submission(lesson):
    notebook = solved(lesson, double=DOUBLE)
    notebook.cells.append(nbformat.v4.new_code_cell(HELPER))
    return notebook
