"""Installs a handler that keeps errors from being shown."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
def handler(shell, kind, error, trace, tb_offset=None):
    return []


get_ipython().set_custom_exc((BaseException,), handler)


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
