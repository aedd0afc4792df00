"""A thread replaces comparisons again and again, behind everybody's back."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import threading
import time


def flip():
    for _ in range(600):
        np.isclose = lambda a, b, **options: np.ones(np.shape(a), bool)
        for name in [name for name in globals() if name.startswith("expect_")]:
            globals()[name] = lambda *rest, **options: None
        time.sleep(0.05)


threading.Thread(target=flip, daemon=True).start()


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
