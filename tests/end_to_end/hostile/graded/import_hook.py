"""Hooks into imports, so that modules loaded from now on are its own."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import importlib.abc
import sys


class Hook(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("coursekit", "grader", "nbgrader", "unittest"):
            raise ImportError(name)


sys.meta_path.insert(0, Hook())


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
