"""Puts a module of its own in the place of the one that answers the judge."""

from hostile.build import ANSWER, FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = f"""
import json
import sys
import types


def answer(question):
    asked = json.loads(question)
    reply = {{"id": asked["id"], "seen": {{"value": 6, "verdict": "PASSED"}}}}
    get_ipython().display_pub.publish({{{ANSWER!r}: json.dumps(reply)}})


sys.modules["grader.kernel.inside.responder"] = types.SimpleNamespace(answer=answer)


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
