"""Raises an error whose class lies about its name and its ancestors."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0, "normalize": 0}

DOUBLE = """
class Lying(type):
    __mro__ = property(lambda self: 1 / 0)
    __name__ = property(lambda self: ["no", "name"])
    __module__ = property(lambda self: exit())

    def mro(cls):
        return [cls, *BaseException.mro()]


class Lie(BaseException, metaclass=Lying):
    pass


def double(x):
    raise Lie("double  right  1 of 1 point")
"""
# The text of the error is right, its class is not.
NORMALIZE = """
def normalize(x):
    if len(x) == 0:
        raise Lie("ValueError: 0 rows")
    return x - x.mean(axis=0)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE, normalize=NORMALIZE)
