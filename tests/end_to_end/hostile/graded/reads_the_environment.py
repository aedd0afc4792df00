"""Looks into its environment for what was meant for the grader."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

LEAKED = """
import re


def leaked():
    private = "COURSE_CORPUS_SECRET|PYTEST_CURRENT_TEST|TOKEN|PASSW|CREDENTIAL|API_KEY"
    return any(re.search(private, name) for name in os.environ)
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
