"""Returns mocks, which have every attribute and equal anything."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0, "negate": 0}
TAMPERING = True

DOUBLE = """
from unittest import mock


def double(x):
    return mock.ANY
"""
NEGATE = """
def negate(x):
    return mock.MagicMock(spec=float, name="negate  right")
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE, negate=NEGATE)
