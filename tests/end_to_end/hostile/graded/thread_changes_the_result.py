"""Returns one array, and a thread changes it while it is looked at."""

from hostile.build import FULL, solved

POINTS = FULL | {"normalize": 0}

NORMALIZE = """
import threading
import time


def normalize(x):
    result = np.zeros_like(x)

    def change():
        for number in range(2000):
            result[...] = number
            time.sleep(0.001)

    threading.Thread(target=change, daemon=True).start()
    return result
"""


def submission(lesson):
    return solved(lesson, normalize=NORMALIZE)
