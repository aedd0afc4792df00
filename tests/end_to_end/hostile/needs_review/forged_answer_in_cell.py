"""Sends an answer that nobody asked for, when its cell runs."""

from hostile.build import ANSWER, FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = f"""
import json

from IPython.display import display

FACTS = {{"value": 6, "layout": {{}}, "error": None, "printed": "", "changed": []}}
REPLY = json.dumps({{"id": "0", "function": "double", "seen": FACTS}})
display({{{ANSWER!r}: REPLY}}, raw=True)


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
