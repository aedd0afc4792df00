"""Says quit() in a cell, which asks Jupyter to end the kernel."""

from hostile.build import FULL, add_cell, guarded, solved

POINTS = FULL
ALSO = ("GRADED_WITH_NOTE",)


def submission(lesson):
    return add_cell(solved(lesson), guarded("quit()"), before="normalize")
