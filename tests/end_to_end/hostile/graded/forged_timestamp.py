"""Hands in a file that says that it was handed in twenty years ago."""

from hostile.build import FULL, named, solved

POINTS = FULL


def submission(lesson):
    def put(folder):
        named("01_tiny.ipynb", solved(lesson))(folder)
        named("timestamp.txt", b"2005-01-01 00:00:00 UTC\n")(folder)

    return put
