"""Rewrites each cell's text before it runs: the expectations are dropped."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
def drop(lines):
    return [line if "expect" not in line else "    pass\\n" for line in lines]


get_ipython().input_transformers_cleanup.append(drop)


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
