"""Watches calls from a profile function, in this thread and in new ones."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import sys
import threading


def profiler(frame, event, argument):
    frame.f_globals.update(expect_close=lambda *rest, **options: None)


sys.setprofile(profiler)
threading.settrace(profiler)


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
