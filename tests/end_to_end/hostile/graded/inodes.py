"""Makes 50,000 empty files, two levels deep."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    for outer in range(100):
        os.makedirs(f"many/{outer}", exist_ok=True)
        for inner in range(500):
            open(f"many/{outer}/{inner}", "w").close()
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
