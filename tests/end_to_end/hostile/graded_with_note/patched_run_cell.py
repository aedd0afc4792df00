"""Replaces the method that runs cells by one that leaves the checks out."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
run_cell = get_ipython().run_cell


def run(source, *rest, **options):
    is_check = "check(" in source or "expect_" in source
    return run_cell("1" if is_check else source, *rest, **options)


get_ipython().run_cell = run


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
