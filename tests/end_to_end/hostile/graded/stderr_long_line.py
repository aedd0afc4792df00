"""Writes one line of 50 MB to stderr, by its file handle too."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
import sys


def double(x):
    print("x" * 50_000_000, file=sys.stderr, flush=True)
    os.write(2, b"y" * 50_000_000)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
