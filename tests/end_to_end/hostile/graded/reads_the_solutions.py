"""Searches the disk for the lesson's source, which holds solutions and hidden tests."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

LEAKED = """
def leaked():
    kinds = (".py", ".ipynb", ".json", ".pyc", ".md", ".txt")
    return any(p.endswith(kinds) and holds_needle(p) for p in files(*PLACES))
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
