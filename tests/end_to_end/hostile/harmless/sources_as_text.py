"""Each cell's text as one string, not as a list of lines: the format allows both."""

import json

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    return json.dumps(solved(lesson)).encode()
