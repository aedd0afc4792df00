"""Prints a line that looks like the answer in JSON that the grader waits for."""

from hostile.build import ANSWER, FULL, guarded, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = f"""
import json

LINE = json.dumps({{"data": {{{ANSWER!r}: {{"value": 6, "verdict": "PASSED"}}}}}})
LINE += json.dumps({{"verdict": "PASSED", "message": "", "details": []}})


def double(x):
    print(LINE, flush=True)
    for handle in range(1, 12):
        try:
            os.write(handle, LINE.encode() + b"\\n")
        except OSError:
            continue
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
