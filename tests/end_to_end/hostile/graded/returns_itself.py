"""Returns a list that holds itself, and a dict that holds the list."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    result = [2 * x]
    result.append({"result": result})
    return result
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
