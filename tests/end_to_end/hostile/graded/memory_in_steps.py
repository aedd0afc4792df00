"""Takes memory in small steps, in many processes, each of which stays below a limit."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    children = [os.fork() for _ in range(3)]  # eight processes
    kept = []
    for _ in range(64):
        kept.append(bytearray(b"x") * 2**24)
    while True:
        pass
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
