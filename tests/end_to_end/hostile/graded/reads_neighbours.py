"""Looks for other learners' notebooks."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

LEAKED = """
def leaked():
    return any(path.endswith(".ipynb") for path in files(*PLACES))
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
