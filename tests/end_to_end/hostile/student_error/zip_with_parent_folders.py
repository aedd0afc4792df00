"""An archive whose names climb out of the folder that it is unpacked in."""

from hostile.build import MARKER, dumps, named, solved, zipped

POINTS = {}


def submission(lesson):
    notebook = dumps(solved(lesson))
    names = ["../" * 8 + MARKER.lstrip("/"), MARKER, "..\\..\\01_tiny.ipynb"]
    return named("01_tiny.zip", zipped(dict.fromkeys(names, notebook)))
