"""Returns objects whose __class__ says that they are a float, a list or a jax.Array."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0, "parallel_square": 0, "negate": 0}
TAMPERING = True

DOUBLE = """
class Lie:
    __class__ = float
    __eq__ = lambda self, other: True
    __float__ = lambda self: 6.0


def double(x):
    return Lie()
"""
SQUARE = """
import types


class Fake:
    __class__ = property(lambda self: jax.Array)

    def __init__(self, value):
        self.value, self.dtype, self.shape = value, value.dtype, value.shape
        self.aval = jax.core.ShapedArray(value.shape, value.dtype)

    def __array__(self, *rest, **more):
        return self.value

    is_deleted = lambda self: False
    block_until_ready = lambda self: self

    @property
    def addressable_shards(self):
        rows = [(slice(row, row + 1), slice(None)) for row in range(len(self.value))]
        pairs = zip(jax.devices(), rows)
        return [types.SimpleNamespace(device=d, index=row) for d, row in pairs]


def parallel_square(x):
    return Fake(np.asarray(x) ** 2)
"""
NEGATE = """
class Empty(list):
    __class__ = tuple
    __iter__ = lambda self: iter([0, 0])
    __len__ = lambda self: 2**40


def negate(x):
    return Empty([x])
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE, parallel_square=SQUARE, negate=NEGATE)
