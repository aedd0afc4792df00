"""Makes the block around each check swallow its errors, and writes its own score."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
from coursekit import check as outcomes


def swallow(self, *error):
    outcomes._results[self.exercise] = ("right", self.points)
    print(f"Right: {self.exercise} does what it should.")
    return True


outcomes.check.__exit__ = swallow


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
