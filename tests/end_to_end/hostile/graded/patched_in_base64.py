"""The same in base64, for the shell's own methods: no error is ever shown."""

from hostile.build import FULL, hidden, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

CODE = """
shell = get_ipython()
shell.showtraceback = lambda *rest, **options: None
shell._showtraceback = lambda *rest, **options: None
"""


def submission(lesson):
    double = "def double(x):\n    return 0\n\n\n" + hidden(CODE)
    return solved(lesson, double=double)
