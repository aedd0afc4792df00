"""Sends answers that are no JSON, no text, or of other types than was agreed."""

from hostile.build import ANSWER, FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = f"""
from IPython.display import display


def double(x):
    for reply in ("{{", "[" * 5000, "NaN", None, 7, [1], {{"a": 1}}, "\\ud800", ""):
        display({{{ANSWER!r}: reply}}, raw=True)
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
