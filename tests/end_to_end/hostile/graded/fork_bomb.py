"""Starts 63 processes by doubling itself six times; they wait for half a minute."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
import time


def double(x):
    parent = os.getpid()
    try:
        for _ in range(6):
            os.fork()
    finally:
        if os.getpid() != parent:
            time.sleep(30)
            os._exit(0)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
