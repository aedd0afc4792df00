"""A loop without an end that no interrupt stops."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
SLOW = True

DOUBLE = """
import signal


def double(x):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
