"""Imports the grader and its tests, and looks for their folders."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

LEAKED = """
import importlib


def leaked():
    for name in ("grader.notebooks", "grader.judge", "hostile.build", "tiny"):
        try:
            return bool(importlib.import_module(name))
        except ImportError:
            pass
    return any("/solutions/" in p or "/tests/hostile/" in p for p in files(*PLACES))
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
