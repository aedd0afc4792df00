"""Seeds every generator there is, and draws from some."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

SEEDS = """
import random

random.seed(0)
np.random.seed(0)
key = jax.random.key(0)
print(random.random(), np.random.rand(), jax.random.normal(key))
"""


def submission(lesson):
    return add_cell(solved(lesson), SEEDS)
