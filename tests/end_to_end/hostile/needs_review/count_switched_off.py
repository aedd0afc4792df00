"""Switches off JAX's count of the programs that it compiles."""

from hostile.build import FULL, solved

POINTS = FULL
TAMPERING = True

NEGATE = """
import jax.monitoring


def negate(x):
    jax.monitoring.clear_event_listeners()
    return -x
"""


def submission(lesson):
    return solved(lesson, negate=NEGATE)
