"""Returns a dict that is longer each time one looks, and has no end."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
import collections.abc
import itertools


class Endless(collections.abc.Mapping):
    def __getitem__(self, key):
        return Endless()

    def __iter__(self):
        return itertools.count()

    def __len__(self):
        return 1


def double(x):
    return Endless()
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
