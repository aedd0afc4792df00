"""Reads the check's own cell in IPython's history and answers what stands there."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import re


def double(x):
    for source in reversed(In):
        for asked, answer in re.findall(r"double, ([-.0-9]+)\\), ([-.0-9]+)", source):
            if float(asked) == x:
                return type(x)(float(answer))
    return None
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
