"""A right exercise whose cell breaks what its neighbours use."""

from hostile.build import FULL, solved

POINTS = FULL

DOUBLE = """
def double(x):
    return x + x


jax.pmap = None
np.mean = np.float32 = None
jax.config.update("jax_platforms", "no_such_platform")
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
