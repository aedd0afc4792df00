"""Computes on the host what should run on eight devices."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}


def submission(lesson):
    square = "def parallel_square(x):\n    return np.square(np.asarray(x))"
    return solved(lesson, parallel_square=square)
