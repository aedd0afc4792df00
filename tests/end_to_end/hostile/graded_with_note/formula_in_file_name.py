"""A file name that a spreadsheet would take for a formula."""

from hostile.build import FULL, named, solved

POINTS = FULL


def submission(lesson):
    return named('=HYPERLINK("x","10 of 10").ipynb', solved(lesson))
