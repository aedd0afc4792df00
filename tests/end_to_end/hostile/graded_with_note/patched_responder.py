"""Imports the module that answers the judge and replaces its functions."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
from grader.kernel.inside import responder

responder.call = lambda function, arguments: {"seen": {"value": 6}}
responder.answer.__defaults__ = None


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
