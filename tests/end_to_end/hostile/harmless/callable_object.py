"""An object that can be called stands for the function."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
class Times:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x


double = Times(2)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
