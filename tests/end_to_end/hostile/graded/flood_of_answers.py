"""Sends 100 MB of forged answers."""

from hostile.build import ANSWER, FULL, guarded, solved

POINTS = FULL | {"double": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

DOUBLE = f"""
from IPython.display import display


def double(x):
    for _ in range(100):
        display({{{ANSWER!r}: "x" * 10**6}}, raw=True)
    return 0
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
