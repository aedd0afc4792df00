"""Reads a file of the learner's own computer, in a cell that no answer needs."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

PATH = r"C:\Users\ada\Documents\jax\data.csv"


def submission(lesson):
    notebook = add_cell(solved(lesson), f"data = np.loadtxt(r'{PATH}')")
    return add_cell(notebook, "import sys\nsys.path.insert(0, '/Users/ada/jax')")
