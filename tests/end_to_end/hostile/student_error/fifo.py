"""A named pipe, at which a reader waits for ever."""

import os

POINTS = {}


def submission(lesson):
    return lambda folder: os.mkfifo(folder / "01_tiny.ipynb")
