"""Prints and raises codes that move a terminal's cursor, link and set its title."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
LINK = "\\x1b]8;;https://example.org\\x1b\\\\Score: 10/10\\x1b]8;;\\x1b\\\\"
CODES = "\\x1b[1A\\x1b[2K\\x1b]52;c;cm0=\\x07\\x1b[?1049h"
CODES += "\\x9d0;t\\x9c\\r\\b\\x0c\\x85\\u2028"


def double(x):
    print(LINK, CODES)
    raise ValueError(f"{CODES} {LINK} \\u202e01/01 :erocS\\u2066")
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
