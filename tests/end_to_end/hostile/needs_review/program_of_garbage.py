"""Hands out random bytes as its exported program."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}
ALSO = ("GRADED",)  # where the program goes by another way, nothing is left of it
TAMPERING = True

SQUARE = """
import types

import jax.export


def serialize(*rest, **options):
    return bytearray(np.random.default_rng(0).bytes(5000))


def forged(function, **options):
    function = getattr(function, "__wrapped__", function)
    return lambda *shapes: (
        function(*[jnp.zeros(s.shape, s.dtype) for s in shapes]),
        types.SimpleNamespace(serialize=serialize),
    )[1]


jax.export.export = forged


def parallel_square(x):
    return jax.device_put(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
