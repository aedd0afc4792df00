"""The course system's archive, handed in as it was downloaded: a zip inside a zip."""

from hostile.build import dumps, named, solved, zipped

POINTS = {}


def submission(lesson):
    inner = zipped({"ada/01_tiny.ipynb": dumps(solved(lesson))})
    return named("Submission_4711.zip", zipped({"ada_assignsubmission.zip": inner}))
