"""Imports all names of NumPy, math and jnp, over Python's own and over some of ours."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

STARS = "from numpy import *\nfrom math import *\nfrom jax.numpy import *"


def submission(lesson):
    return add_cell(solved(lesson), STARS)
