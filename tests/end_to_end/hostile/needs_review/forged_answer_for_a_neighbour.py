"""Answers for another exercise, and from a thread: what is asked while it waits."""

from hostile.build import ANSWER, FULL, solved

POINTS = FULL | {"double": 0, "negate": 0}
TAMPERING = True

NEGATE = f"""
import json
import threading
import time

from IPython.display import display


def claim():
    facts = {{"value": 6, "layout": {{}}, "error": None, "printed": "", "changed": []}}
    reply = json.dumps({{"id": "0", "function": "double", "seen": facts}})
    display({{{ANSWER!r}: reply}}, raw=True)


def later():
    for _ in range(20):
        time.sleep(0.02)
        claim()


def negate(x):
    claim()
    threading.Thread(target=later, daemon=True).start()
    time.sleep(0.1)
    return x
"""


def submission(lesson):
    return solved(lesson, double="def double(x):\n    return 0", negate=NEGATE)
