"""A retry loop that catches everything, the interrupt included."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
SLOW = True

DOUBLE = """
import time


def double(x):
    while True:
        try:
            time.sleep(0.1)
            raise ValueError("again")
        except BaseException:
            continue
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
