"""The first two thirds of a notebook: a disk or a quota was full."""

from hostile.build import dumps, solved

POINTS = {}


def submission(lesson):
    whole = dumps(solved(lesson))
    return whole[: len(whole) * 2 // 3]
