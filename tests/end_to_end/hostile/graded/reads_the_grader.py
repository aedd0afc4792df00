"""Imports the grader and its tests, and looks for their folders."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

LEAKED = """
import importlib


def leaked():
    ours = ("grader.lessons.release", "grader.judging.judge")
    for name in (*ours, "hostile.build", "tiny"):
        try:
            return bool(importlib.import_module(name))
        except ImportError:
            pass
    folders = ("/solutions/", "/end_to_end/hostile/")
    return any(folder in path for path in files(*PLACES) for folder in folders)
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
