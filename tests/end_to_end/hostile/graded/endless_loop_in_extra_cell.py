"""A training loop without an end, in a cell of the learner's own."""

from hostile.build import FULL, add_cell, solved

POINTS = FULL
ALSO = ("GRADED_WITH_NOTE",)
SLOW = True


def submission(lesson):
    loop = "import time\nwhile True:\n    time.sleep(0.01)"
    return add_cell(solved(lesson), loop, before="normalize")
