"""Cells of the learner's own: imports, a helper, a try-out, one that fails."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED_WITH_NOTE"
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return twice(x)")
    add_cell(notebook, "import math\nimport pandas_that_is_not_there")
    add_cell(notebook, "def twice(x):\n    return x + x")
    add_cell(notebook, "print(double(4))\n1 / 0", before="negate")
    return add_cell(notebook, "assert no_such_name == 3", before=None)
