"""Replaces jnp's comparisons, and the functions that others might compute with."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
def double(x):
    return 0


jnp.allclose = jnp.array_equal = lambda *arrays, **options: jnp.bool_(True)
jnp.square = jnp.mean = lambda x, **options: x
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
