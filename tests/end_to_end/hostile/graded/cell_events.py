"""Asks IPython to call it before each cell, and changes the names that checks use."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
def double(x):
    return 0


def before(*rest):
    nothing = lambda *rest, **options: None
    names = [name for name in globals() if name.startswith("expect_")]
    globals().update(dict.fromkeys(names, nothing))


get_ipython().events.register("pre_run_cell", before)
get_ipython().events.register("pre_execute", before)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
