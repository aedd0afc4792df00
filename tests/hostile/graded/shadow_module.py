"""Writes a module of its own into the working folder, which Python imports first."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"normalize": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

NORMALIZE = '''
CODE = """
from facts import *
import facts
same = facts.same = lambda before, after: True
"""
for name in ("responder", "wire", "observe", "facts"):
    with open(f"{name}.py", "w") as file:
        file.write(CODE)


def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    x -= x.mean(axis=0)
    return x
'''


def submission(lesson):
    return solved(lesson, normalize=guarded(NORMALIZE))
