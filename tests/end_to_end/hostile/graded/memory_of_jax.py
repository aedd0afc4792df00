"""Arrays of 8 GB in all, which XLA allocates outside of Python."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    kept = [jnp.full(2**26, number, jnp.float32) for number in range(32)]
    return float(kept[-1][0])
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
