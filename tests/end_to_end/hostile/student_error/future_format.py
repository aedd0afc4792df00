"""A notebook of a format that does not exist yet."""

from hostile.build import solved

POINTS = {}


def submission(lesson):
    notebook = solved(lesson)
    notebook.nbformat = 99
    return notebook
