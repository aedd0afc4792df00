"""An archive that holds the notebook, with what a Mac adds to it."""

from hostile.build import FULL, dumps, named, solved, zipped

POINTS = FULL


def submission(lesson):
    litter = {"__MACOSX/._01_tiny.ipynb": b"\0" * 200, ".DS_Store": b"\0" * 200}
    files = {"lesson 1/01_tiny.ipynb": dumps(solved(lesson)), **litter}
    return named("01_tiny.zip", zipped(files))
