"""The learner's own variables are called like the course's modules and names."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

NAMES = """
import time
import types

start = time.perf_counter()
expect, check, seen = 6, True, "yes"
observe = [start]
observe.append(time.perf_counter() - start)
facts = types.SimpleNamespace(rows=8)
facts.rows = 16


class Timer:
    def __init__(self):
        self.start = self.expect = 0
"""


def submission(lesson):
    return add_cell(solved(lesson), NAMES)
