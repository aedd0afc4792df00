"""A file name that is markup, for pages that show it."""

from hostile.build import FULL, named, solved

POINTS = FULL


def submission(lesson):
    return named("<img src=x onerror=alert(1)>.ipynb", solved(lesson))
