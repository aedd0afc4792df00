"""Replaces the streams to silence a library and forgets to put them back."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

SILENCE = """
import io
import os
import sys

sys.stdout = io.StringIO()
sys.stderr = open(os.devnull, "w")
"""


def submission(lesson):
    return add_cell(solved(lesson), SILENCE)
