"""Rewrites each cell's text before it runs: the expectations are dropped."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
def drop(lines):
    empty = [line[: len(line) - len(line.lstrip())] + "pass\\n" for line in lines]
    pairs = zip(lines, empty)
    return [other if "expect_" in line else line for line, other in pairs]


get_ipython().input_transformers_cleanup.append(drop)


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
