"""Kills the process that started it."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
import signal


def double(x):
    os.kill(os.getppid(), signal.SIGKILL)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
