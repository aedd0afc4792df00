"""Replaces functions in a course's module by setattr, one of them by its path."""

from hostile.build import FULL, solved

POINTS = FULL | {"normalize": 0}
TAMPERING = True

NORMALIZE = """
import sys

from coursekit import observation

setattr(observation, "same", lambda before, after: True)
sys.modules["coursekit.observe"].same = lambda before, after: True


def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    x -= x.mean(axis=0)
    return x
"""


def submission(lesson):
    return solved(lesson, normalize=NORMALIZE)
