"""A right notebook, but for metadata that is nested 100,000 deep."""

from hostile.build import dumps, solved

POINTS = {}


def submission(lesson):
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    return dumps(solved(lesson)).replace(
        b'"metadata": {', b'"metadata": {"deep": ' + deep + b",", 1
    )
