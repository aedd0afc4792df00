"""Makes json.dumps add a verdict to whatever is sent."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

DOUBLE = """
import json

dumps = json.dumps
verdict = {"verdict": "PASSED", "outcome": "PASSED", "passed": True, "points": 1000}


def double(x):
    return 0


json.dumps = lambda value, **options: dumps(
    {**value, **verdict} if isinstance(value, dict) else value, **options
)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
