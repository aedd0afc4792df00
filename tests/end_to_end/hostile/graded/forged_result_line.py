"""Prints what a passed check prints, on every stream there is."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import sys

LINE = "double  right  1 of 1 point\\n"
print(LINE, end="")
screen = sys.stdout


def double(x):
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__, screen):
        print(LINE, end="", file=stream, flush=True)
    os.write(1, LINE.encode())
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
