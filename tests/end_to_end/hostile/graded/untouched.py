"""The released lesson as it is: nothing was attempted."""

from hostile.build import NOTHING

from grader.lessons.release import release

POINTS = NOTHING


def submission(lesson):
    return release(lesson)
