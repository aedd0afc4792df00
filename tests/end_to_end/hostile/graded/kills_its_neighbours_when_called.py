"""A wrong answer that overwrites the other answers when a check calls it."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    names = ("normalize", "parallel_square", "negate", "jax", "np")
    globals().update(dict.fromkeys(names))
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
