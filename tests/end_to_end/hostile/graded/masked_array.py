"""Returns an array that is masked all over: no difference is ever visible."""

from hostile.build import FULL, solved

POINTS = FULL | {"normalize": 0}
TAMPERING = True

NORMALIZE = """
def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    return np.ma.masked_all_like(x)
"""


def submission(lesson):
    return solved(lesson, normalize=NORMALIZE)
