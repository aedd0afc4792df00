"""Computes with NumPy and replaces the function that lists what lies where."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}
TAMPERING = True

SQUARE = """
from coursekit import observe as module
from coursekit.observation import Shard


def shards(array):
    rest = tuple((0, size) for size in array.shape[1:])
    return tuple(Shard(row, ((row, row + 1), *rest)) for row in range(len(array)))


module.shards = shards


def parallel_square(x):
    return jnp.asarray(np.square(x))
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
