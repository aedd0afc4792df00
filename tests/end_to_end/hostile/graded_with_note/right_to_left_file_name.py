"""A file name in which a control character reverses what follows."""

from hostile.build import FULL, named, solved

POINTS = FULL


def submission(lesson):
    return named("01_tiny\u202egpj.ipynb", solved(lesson))
