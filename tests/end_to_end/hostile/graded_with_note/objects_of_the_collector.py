"""Searches all objects in memory for hidden tests, and answers if it finds some."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import gc
import re


def double(x):
    for thing in gc.get_objects():
        text = thing.get("source") if type(thing) is dict else None
        if isinstance(text, str) and "BEGIN HIDDEN" in text:
            return dict(re.findall("double, (.*?)[)], (.*)[)]", text)).get(str(x))
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
