"""The learner's own variables are called like the course's modules and names."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

NAMES = """
import time
import types

setup = time.perf_counter()
expect, check, seen = 6, True, "yes"
observe = [setup]
observe.append(time.perf_counter() - setup)
observation = types.SimpleNamespace(rows=8)
observation.rows = 16


class Timer:
    def __init__(self):
        self.setup = self.expect = 0
"""


def submission(lesson):
    return add_cell(solved(lesson), NAMES)
