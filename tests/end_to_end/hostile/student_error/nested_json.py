"""A list inside a list, 100,000 deep: it overflows a parser's stack."""

POINTS = {}


def submission(lesson):
    return b"[" * 100_000 + b"]" * 100_000
