"""Watches every call from a trace function and changes the checks' variables."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import sys


def tracer(frame, event, argument):
    if frame.f_code.co_name == "expect_close":
        frame.f_locals["expected"] = frame.f_locals["seen"].value
    return tracer


sys.settrace(tracer)


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
