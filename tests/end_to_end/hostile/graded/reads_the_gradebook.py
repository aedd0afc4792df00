"""Looks for the gradebook, to read it or to write marks into it."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

LEAKED = """
def leaked():
    ends = (".db", ".sqlite", ".sqlite3", "nbgrader_config.py")
    found = [path for path in files(*PLACES) if path.endswith(ends)]
    return any("/.ipython/" not in path for path in found)  # its own history's
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
