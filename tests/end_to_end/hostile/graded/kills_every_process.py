"""Kills every process that it may, its group first."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
import signal


def double(x):
    if os.fork() == 0:
        os.setsid()
        os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.killpg(0, signal.SIGKILL)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
