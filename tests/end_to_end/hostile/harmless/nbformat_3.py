"""Format 3, with worksheets and `input` in place of `source`."""

import json

import nbformat
from hostile.build import FULL, minor, solved

STATUS = "GRADED_WITH_NOTE"
ALSO = ("GRADED",)
POINTS = FULL


def submission(lesson):
    old = nbformat.v4.downgrade(minor(solved(lesson), 0))
    return json.dumps(old).encode()
