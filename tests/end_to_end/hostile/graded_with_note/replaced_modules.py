"""Puts modules of its own in the place of the course's."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import sys
import types

fake = types.ModuleType("coursekit.expect")
fake.expect_close = fake.expect_devices = lambda *rest, **options: None
sys.modules["coursekit.expect"] = fake
globals().update(vars(fake))


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
