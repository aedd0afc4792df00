"""Keys in reverse order, everywhere: another tool's JSON writer."""

import json

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL


def turned(value):
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


def submission(lesson):
    return json.dumps(turned(solved(lesson))).encode()
