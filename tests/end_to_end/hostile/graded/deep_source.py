"""Nests so deep that Python's parser gives up: in an answer, and in an extra cell."""

from hostile.build import FULL, add_cell, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    deep = "not " * 20_000 + "True"
    notebook = solved(lesson, double=f"def double(x):\n    return {deep}")
    return add_cell(notebook, "-" * 50_000 + "1")
