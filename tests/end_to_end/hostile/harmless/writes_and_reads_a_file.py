"""Writes a file into the working folder; an answer reads it back."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
def double(x):
    with open("factor.txt") as file:
        return int(file.read()) * x
"""


def submission(lesson):
    notebook = solved(lesson, double=DOUBLE)
    return add_cell(notebook, "%%writefile factor.txt\n2")
