"""Opens files until it is stopped, 100,000 at most."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
kept = []


def double(x):
    for _ in range(100_000):
        kept.append(open(os.devnull))
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
