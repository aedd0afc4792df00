"""Clears the workspace in the first cell, a habit from other systems."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    return add_cell(solved(lesson), "%reset -f", before="setup")
