"""Modifies its argument and says in a forged answer, rightly numbered, that it did not.

The number stands in the question, whose source IPython keeps for error messages.
"""

from hostile.build import ANSWER, FULL, solved

POINTS = FULL | {"normalize": 0}
TAMPERING = True

NORMALIZE = f"""
import json
import linecache
import re
import sys

from IPython.display import display


def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    x -= x.mean(axis=0)
    asked = str([*linecache.cache.values()])
    number = re.findall('"id": "([0-9a-f]+)"', asked)[-1]
    wire = sys.modules["grader.kernel.inside.wire"]

    facts = {{"value": wire.encode(x), "layout": {{}}, "error": None, "printed": ""}}
    facts["changed"] = []
    display({{{ANSWER!r}: json.dumps({{"id": number, "seen": facts}})}}, raw=True)
    return x
"""


def submission(lesson):
    return solved(lesson, normalize=NORMALIZE)
