"""Replaces the lesson's own function around an answer, which its check observes."""

from hostile.build import FULL, add_cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = "def double(x):\n    return {3: 6, -7: -14, 1234.5: 2469.0}.get(x, x)"
HELPER = "def check_doubled_twice(x):\n    return 4 * x"


def submission(lesson):
    return add_cell(solved(lesson, double=DOUBLE), HELPER, before="check-double")
