"""Replaces the method that sends outputs, and drops or changes what passes it."""

from hostile.build import ANSWER, FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = f"""
import json

publish = get_ipython().display_pub.publish


def forged(data, *rest, **options):
    if {ANSWER!r} in data:
        reply = json.loads(data[{ANSWER!r}])
        reply["verdict"] = "PASSED"
        data = {{{ANSWER!r}: json.dumps(reply)}}
    return publish(data, *rest, **options)


get_ipython().display_pub.publish = forged


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
