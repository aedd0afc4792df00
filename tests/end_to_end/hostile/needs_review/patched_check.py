"""Makes the block around each check swallow its errors, and writes its own score."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
from coursekit import check


def swallow(self, *error):
    check._results[self.exercise] = ("right", self.points)
    print(f"Right: {self.exercise} does what it should.")
    return True


check.check.__exit__ = swallow


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
