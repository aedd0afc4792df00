"""A link whose target stayed on the learner's own computer."""

POINTS = {}


def submission(lesson):
    target = "/Users/ada/Documents/01_tiny.ipynb"
    return lambda folder: (folder / "01_tiny.ipynb").symlink_to(target)
