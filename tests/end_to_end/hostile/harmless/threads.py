"""An answer by a pool of threads, and a thread that goes on ticking."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
import threading
from concurrent.futures import ThreadPoolExecutor

stop = threading.Event()
threading.Thread(target=stop.wait, args=(30,), daemon=True).start()


def double(x):
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda part: part, [x, x]))
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
