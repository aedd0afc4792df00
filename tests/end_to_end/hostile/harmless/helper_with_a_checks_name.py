"""Has a helper function of its own whose name the lesson's check uses, too."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
def check_doubled_twice(x):
    return x


def double(x):
    return x + check_doubled_twice(x)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
