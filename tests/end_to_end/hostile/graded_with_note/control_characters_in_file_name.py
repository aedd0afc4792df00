"""A file name with a line break, a tab, a terminal's escape code and a leading dash."""

from hostile.build import FULL, named, solved

POINTS = FULL


def submission(lesson):
    return named("-rf\n\t\x1b[2J 01 tiny.ipynb", solved(lesson))
