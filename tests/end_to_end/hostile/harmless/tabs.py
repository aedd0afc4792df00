"""Indents with tabs and ends a statement with a semicolon."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

DOUBLE = "def double(x):\n\tif x:\n\t\treturn x + x;\n\telse:\n\t\treturn x;"


def submission(lesson):
    return solved(lesson, double=DOUBLE)
