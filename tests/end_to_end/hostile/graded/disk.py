"""Writes 200 MB into each place that lets itself be written to, one after another."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    for place in (os.getcwd(), "/tmp", "/dev/shm"):
        path = os.path.join(place, "flood")
        try:
            with open(path, "wb") as file:
                for _ in range(200):
                    file.write(bytes(10**6))
            os.remove(path)
        except OSError:
            pass
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
