"""Leaves by SystemExit, in a function and at the top level of a cell."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0, "negate": 0}
TAMPERING = True


def submission(lesson):
    double = 'def double(x):\n    raise SystemExit("double  right")'
    return solved(lesson, double=double, negate="import sys\nsys.exit(0)")
