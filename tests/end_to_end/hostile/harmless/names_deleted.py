"""Deletes names that the answers do not need, the course's among them."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

DELETE = """
a, b = 1, 2
del a, b
del observe, check, scorecard, setup
"""


def submission(lesson):
    return add_cell(solved(lesson), DELETE)
