"""Raises what the grader itself would use to stop it."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0, "negate": 0}


def submission(lesson):
    interrupt = "def double(x):\n    raise KeyboardInterrupt"
    end = "def negate(x):\n    raise GeneratorExit('negate  right')"
    return solved(lesson, double=interrupt, negate=end)
