"""Replaces collectives and control flow in jax.lax by functions that do nothing."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
def double(x):
    return 0


jax.lax.psum = jax.lax.pmean = jax.lax.all_gather = lambda x, *rest, **options: x
jax.lax.cond = lambda which, yes, no, *operands: yes(*operands)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
