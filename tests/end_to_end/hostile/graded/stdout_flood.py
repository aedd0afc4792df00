"""Prints 200 MB in short lines."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
SLOW = True

DOUBLE = """
import sys

screen = sys.stdout


def double(x):
    for _ in range(2000):
        print(("x" * 99 + "\\n") * 1000, file=screen, flush=True)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
