"""Replaces functions of Python's own, which every check calls."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import builtins

every = builtins.all
builtins.all = lambda items: bool(every(items)) or True
setattr(builtins, "any", lambda items: False)


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
