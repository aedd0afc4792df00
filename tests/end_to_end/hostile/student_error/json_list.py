"""A list where a notebook should be."""

POINTS = {}


def submission(lesson):
    return b"[1, 2, 3]"
