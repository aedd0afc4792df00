"""Sends a forged answer by the pipe itself, past all that publishes."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import json


def double(x):
    channel = get_ipython().channel
    facts = {"value": 6, "layout": {}, "error": None, "printed": "", "changed": []}
    channel.send(b"r", json.dumps({"id": "0", "seen": facts}))
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
