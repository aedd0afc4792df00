"""Uses inspect, gc, traceback and sys as honest people do."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

LOOKS = """
import atexit
import gc
import inspect
import sys
import traceback

print(inspect.signature(jax.pmap), sys.getsizeof([]), gc.collect())
print(inspect.getsource(double))
try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc()
atexit.register(print, "bye")
sys.setrecursionlimit(5000)
"""


def submission(lesson):
    return add_cell(solved(lesson), LOOKS, before="normalize")
