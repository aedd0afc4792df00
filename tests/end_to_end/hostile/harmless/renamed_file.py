"""A browser's second download: "01_tiny (1).ipynb"."""

from hostile.build import FULL, named, solved

STATUS = "GRADED_WITH_NOTE"
POINTS = FULL


def submission(lesson):
    return named("01_tiny (1).ipynb", solved(lesson))
