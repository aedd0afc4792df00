"""Returns 1 GB, and the next exercise an array of that size."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0, "normalize": 0}


def submission(lesson):
    double = guarded("def double(x):\n    return b'x' * 2**30")
    array = guarded("def normalize(x):\n    return np.zeros(2**28, np.float32)")
    return solved(lesson, double=double, normalize=array)
