"""Takes up to 8 GB of memory and touches every page of it."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    kept = []
    for _ in range(128):
        kept.append(bytearray(b"x") * 2**26)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
