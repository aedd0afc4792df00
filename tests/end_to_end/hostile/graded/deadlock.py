"""Takes a lock twice and waits for itself."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
SLOW = True

DOUBLE = """
import threading

lock = threading.Lock()


def double(x):
    with lock, lock:
        return 2 * x
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
