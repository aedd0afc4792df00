"""Moves to another folder and stays there."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

MOVE = "import os\nimport tempfile\n\nos.chdir(tempfile.mkdtemp())"


def submission(lesson):
    return add_cell(add_cell(solved(lesson), MOVE), "%cd ..")
