"""Names of functions, cells and metadata that are markup."""

from hostile.build import FULL, solved

POINTS = FULL | {"negate": 0}

DOUBLE = """
def double(x):
    return x + x


double.__name__ = double.__qualname__ = "<script>alert(1)</script>"
double.__module__ = "=1+1"
"""
NEGATE = """
def negate(x):
    return {"<b>": type("<script>", (), {})(), "=1+1": "\\x1b[2J"}
"""


def submission(lesson):
    notebook = solved(lesson, double=DOUBLE, negate=NEGATE)
    notebook.metadata.title = "<script>alert(1)</script>"
    notebook.metadata.authors = [{"name": "=HYPERLINK(1)"}]
    return notebook
