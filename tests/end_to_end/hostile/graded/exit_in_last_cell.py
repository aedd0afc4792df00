"""Ends the process in a cell of the learner's own, behind all right answers."""

from hostile.build import FULL, add_cell, guarded, solved

POINTS = FULL
ALSO = ("GRADED_WITH_NOTE",)


def submission(lesson):
    return add_cell(solved(lesson), guarded("os._exit(0)"), before=None)
