"""Returns NaN, an infinity and NaN in arrays: nothing is equal to them, or all is."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0, "normalize": 0, "negate": 0}


def submission(lesson):
    normalize = "def normalize(x):\n    return np.full_like(x, np.nan)"
    return solved(
        lesson,
        double="def double(x):\n    return float('nan')",
        normalize=normalize,
        negate="def negate(x):\n    return -float('inf')",
    )
