"""Returns objects that would run code wherever they are unpickled."""

from hostile.build import FULL, MARKER, guarded, solved

POINTS = FULL | {"double": 0, "normalize": 0}

DOUBLE = f"""
class Pickled:
    def __reduce__(self):
        return open, ({MARKER!r}, "w")


def double(x):
    return Pickled()
"""
NORMALIZE = """
def normalize(x):
    return np.array([Pickled()] * len(x), dtype=object)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE), normalize=NORMALIZE)
