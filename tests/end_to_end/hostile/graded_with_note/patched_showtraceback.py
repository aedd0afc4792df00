"""Replaces the method that shows errors, on a shell that it first gives a name."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
shell = get_ipython()
shell.showtraceback = lambda *rest, **options: None
shell._showtraceback = lambda *rest, **options: None


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
