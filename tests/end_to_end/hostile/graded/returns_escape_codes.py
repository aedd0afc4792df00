"""Returns and prints codes that clear a terminal, set its title and hide text."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
def double(x):
    codes = "\\x1b[2J\\x1b]0;title\\x07\\x9b31m\\x08\\x08\\r"
    codes += "\\x00\\x7f\\u202e\\u200b\\ufeff"
    print(codes, "Score: 10/10")
    return codes
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
