"""Shows 20,000 small things: each one is a message and would be an output."""

from hostile.build import FULL, add_cell, guarded, solved

POINTS = FULL
ALSO = ("GRADED_WITH_NOTE",)
SLOW = True

SHOW = """
from IPython.display import clear_output, display

for number in range(20_000):
    display({"text/plain": str(number)}, raw=True)
clear_output()
"""


def submission(lesson):
    return add_cell(solved(lesson), guarded(SHOW), before=None)
