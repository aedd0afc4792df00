"""Reads the check's own cell in IPython's history and answers what stands there."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import re

CASE = r"double\\w*, ([-.0-9]+)\\), ([-.0-9]+)"


def double(x):
    for source in reversed(In):
        for asked, answer in re.findall(CASE, source):
            if float(asked) == x:
                return type(x)(float(answer))
    return x
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
