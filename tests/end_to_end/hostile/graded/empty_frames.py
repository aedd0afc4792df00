"""Sends frames to the grader without an end, by the runner's own pipe, all empty."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
ALSO = ("NEEDS_REVIEW",)

DOUBLE = """
import struct


def double(x):
    frame = struct.pack(">cII", b"r", 2**31, 0) + bytes(0)
    while True:
        os.write(get_ipython().channel.descriptor, frame)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
