"""Cells that work on Colab alone: the drive, uploads, a form field."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED_WITH_NOTE"
POINTS = FULL

MOUNT = """
from google.colab import drive, files
drive.mount("/content/drive")
files.upload()
"""


def submission(lesson):
    notebook = add_cell(solved(lesson), MOUNT)
    return add_cell(notebook, 'name = "Ada"  # @param {type:"string"}')
