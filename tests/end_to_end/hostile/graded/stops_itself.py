"""Stops its own process, which then neither works nor dies."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
SLOW = True

DOUBLE = """
import signal


def double(x):
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
