"""Checkpoints, data and a system's own litter were handed in along with it."""

from hostile.build import FULL, named, solved

STATUS = "GRADED"
ALSO = ("GRADED_WITH_NOTE",)
POINTS = FULL


def submission(lesson):
    def put(folder):
        named("01_tiny.ipynb", solved(lesson))(folder)
        named(".DS_Store", b"\0" * 100)(folder)
        named("Thumbs.db", b"\0" * 100)(folder)
        named("data.csv", b"a,b\n1,2\n")(folder)
        (folder / ".ipynb_checkpoints").mkdir()
        named("01_tiny-checkpoint.ipynb", b"{")(folder / ".ipynb_checkpoints")

    return put
