"""Forks inside the function: two processes come back from one call."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

DOUBLE = """
def double(x):
    return x if os.fork() else 0
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
