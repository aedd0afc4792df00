"""Git's conflict markers inside an answer."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
<<<<<<< HEAD
    return 2 * x
=======
    return x + x
>>>>>>> ada
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
