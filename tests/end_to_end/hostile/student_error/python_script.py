"""The answers as a Python script, renamed to .ipynb."""

from hostile.build import ANSWERS

POINTS = {}


def submission(lesson):
    return "\n\n\n".join(ANSWERS.values()).encode()
