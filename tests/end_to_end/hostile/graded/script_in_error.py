"""Raises an error whose class and message are markup."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
Error = type("<script>alert(1)</script>", (Exception,), {})


def double(x):
    raise Error("</pre><script>alert(2)</script><svg/onload=alert(3)>" + "\\"'><b>")
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
