"""Replaces a comparison in the course's modules, by names made up at run time."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import importlib


def double(x):
    return 0


for module in ("course" + "kit.expect", "course" + "kit.observation"):
    module = importlib.import_module(module)
    put = getattr(__builtins__, "set" + "attr", None) or __builtins__["set" + "attr"]
    put(module, "diff" + "erence", lambda *rest: None)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
