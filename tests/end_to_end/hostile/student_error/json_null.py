"""The word null: an editor saved a document that it had failed to load."""

POINTS = {}


def submission(lesson):
    return b"null"
