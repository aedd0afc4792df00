"""Returns objects that are equal to everything: of an own class, of int, of str."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0, "negate": 0}
TAMPERING = True

DOUBLE = """
class Equal:
    def same(self, *other):
        return True

    __eq__ = __le__ = __ge__ = __lt__ = __gt__ = __contains__ = __bool__ = same
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0
    __sub__ = __rsub__ = __abs__ = __array_ufunc__ = lambda self, *rest, **more: self


def double(x):
    return Equal()
"""
NEGATE = """
class Number(float):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = float.__hash__


def negate(x):
    return Number(7)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE, negate=NEGATE)
