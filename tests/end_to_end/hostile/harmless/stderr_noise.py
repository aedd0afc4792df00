"""A library's chatter on stderr, on the stream and on the file handle below it."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
import os
import sys

print("E0000 no GPU found", file=sys.stderr)


def double(x):
    print("W0000 still none", file=sys.stderr)
    os.write(2, b"W0001 none at all\\n")
    return x + x
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
