"""Empties np.testing, which many graders compare with."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
def double(x):
    return 0


for name in dir(np.testing):
    if name.startswith("assert"):
        setattr(np.testing, name, lambda *arguments, **options: None)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
