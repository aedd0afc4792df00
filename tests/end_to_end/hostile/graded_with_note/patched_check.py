"""Makes checks swallow what goes wrong, and give a verdict of its own."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
from coursekit import checks, expect, outcomes


def right(self, exercise, *rest):
    return outcomes.Verdict(exercise, "right", 1.0)


checks.CheckModule.run = right
expect.wrong = lambda *rest, **options: None


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
