"""Modifies its argument, and swaps the code inside the function that would notice."""

from hostile.build import FULL, hidden, solved

POINTS = FULL | {"normalize": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

CODE = """
from coursekit import observation

observation.same.__code__ = (lambda before, after: True).__code__
"""
NORMALIZE = """
def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    x -= x.mean(axis=0)
    return x


"""


def submission(lesson):
    return solved(lesson, normalize=NORMALIZE + hidden(CODE))
