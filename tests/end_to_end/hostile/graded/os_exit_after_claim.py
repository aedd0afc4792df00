"""Prints a passed check's line, waits until it is sent, and ends the process."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import sys
import time

screen = sys.stdout


def double(x):
    print("double  right  1 of 1 point", file=screen, flush=True)
    time.sleep(0.5)
    os._exit(0)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
