"""Reads every file that was open when its process started."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

LEAKED = """
def leaked():
    for handle in range(3, 512):
        try:
            place = os.readlink(f"/proc/self/fd/{handle}")
        except OSError:
            continue
        ours = ("/tmp", "/usr", "/memfd", *OURS)
        if place.startswith("/") and not place.startswith(ours):
            return True
    return False
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
