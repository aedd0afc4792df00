"""Sends a forged answer from inside the function: then there are two."""

from hostile.build import ANSWER, FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = f"""
import json

from IPython.display import display


def double(x):
    facts = {{"value": 6, "layout": {{}}, "error": None, "printed": "", "changed": []}}
    display({{{ANSWER!r}: json.dumps({{"id": "0", "seen": facts}})}}, raw=True)
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
