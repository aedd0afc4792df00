"""Walks up the frames by two functions of inspect and changes what it finds there."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import inspect
from inspect import currentframe as here


def double(x):
    for info in inspect.stack():
        info.frame.f_globals.update(expect_close=lambda *rest, **options: None)
    return here().f_back.f_locals.get("expected")
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
