"""The same in a cell of IPython's own syntax, which Python alone cannot parse."""

from hostile.build import FULL, add_cell, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

PATCH = """
%matplotlib inline
!true
from coursekit import expect as checks
checks.difference = lambda *rest: None
"""


def submission(lesson):
    notebook = solved(lesson, double="def double(x):\n    return 0")
    return add_cell(notebook, PATCH)
