"""Hides a right notebook in two million characters of code."""

from hostile.build import FULL, add_cell, solved

POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    for _ in range(4):
        add_cell(notebook, "def later():\n" + "    total = total + 1\n" * 23_000)
    return notebook
