"""Returns text that no encoding can write."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0, "negate": 0}

NEGATE = """
def negate(x):
    print("\\udc80 \\ud800")
    raise ValueError("\\ud83d")
"""


def submission(lesson):
    double = 'def double(x):\n    return {"\\ud800": "\\udfff"}'
    return solved(lesson, double=double, negate=NEGATE)
