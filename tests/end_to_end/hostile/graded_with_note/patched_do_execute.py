"""Replaces the kernel's own method: it answers each request with success."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
async def execute(*rest, **options):
    return {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}


get_ipython().kernel.do_execute = execute


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
