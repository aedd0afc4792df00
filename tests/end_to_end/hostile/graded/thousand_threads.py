"""Starts 1,000 threads that wait for a minute."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
import threading
import time


def double(x):
    for _ in range(1000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
