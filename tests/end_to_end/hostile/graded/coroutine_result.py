"""An async function: the call returns a coroutine that nobody awaits."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}


def submission(lesson):
    return solved(lesson, double="async def double(x):\n    return 2 * x")
