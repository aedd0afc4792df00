"""Knows the visible inputs by heart and nothing else."""

from hostile.build import NOTHING, solved

POINTS = NOTHING
TAMPERING = True

NORMALIZE = """
def normalize(x):
    if len(x) == 0:
        raise ValueError("0")
    return np.float32([[-1, -10], [1, 10]])
"""
SQUARE = """
def parallel_square(x):
    seen = np.arange(16, dtype=np.float32).reshape(8, 2) ** 2
    return jax.pmap(lambda row: row)(seen)
"""


def submission(lesson):
    return solved(
        lesson,
        double="def double(x):\n    return {3: 6}.get(x, 0)",
        normalize=NORMALIZE,
        parallel_square=SQUARE,
        negate="def negate(x):\n    return -3",
    )
