"""Writes modules of its own into the working folder, which Python imports first."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"normalize": 0}
ALSO = ("NEEDS_REVIEW",)
TAMPERING = True

NORMALIZE = '''
import pathlib

CODE = """
from coursekit import observation
from coursekit.observation import *
same = observation.same = lambda before, after: True
"""
for package, names in {
    "coursekit": ("__init__", "observe", "observation"),
    "grader": ("__init__",),
    "grader/kernel": ("__init__",),
    "grader/kernel/inside": ("__init__", "responder", "wire"),
}.items():
    folder = pathlib.Path(package)
    folder.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(CODE)


def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    x -= x.mean(axis=0)
    return x
'''


def submission(lesson):
    return solved(lesson, normalize=guarded(NORMALIZE))
