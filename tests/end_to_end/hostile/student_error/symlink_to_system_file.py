"""A link to a file of the grading machine, whose text a message might quote."""

POINTS = {}


def submission(lesson):
    return lambda folder: (folder / "01_tiny.ipynb").symlink_to("/etc/passwd")
