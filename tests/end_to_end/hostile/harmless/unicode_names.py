"""Names and comments beyond ASCII, an emoji among them."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = """
def double(größe):
    "Verdoppelt die Größe 🙂"
    繰り返し = größe + größe  # 二倍
    return 繰り返し
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
