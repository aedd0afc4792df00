"""Claims to be right when the process ends, and then ends it with success."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import atexit


@atexit.register
def claim():
    print("double  right  1 of 1 point", flush=True)
    os._exit(0)


def double(x):
    raise SystemExit(0)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
