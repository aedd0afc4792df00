"""Crashes the interpreter by recursion in C, as deep as one likes."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
import sys


def double(x):
    sys.setrecursionlimit(10**7)

    def deeper(number):
        return list(map(deeper, [number + 1]))

    return deeper(0)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
