"""Turns every warning into an error, as careful people do."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

STRICT = 'import warnings\n\nwarnings.simplefilter("error")\nnp.seterr(all="raise")'


def submission(lesson):
    return add_cell(solved(lesson), STRICT)
