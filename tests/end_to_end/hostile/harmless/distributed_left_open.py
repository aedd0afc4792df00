"""Starts jax.distributed on its own, as a tutorial does, and leaves it open."""

from hostile.build import FULL, add_cell, guarded, solved

STATUS = "GRADED"
POINTS = FULL

OPEN = """
import jax

jax.distributed.initialize(
    "localhost:12355", num_processes=1, process_id=0, initialization_timeout=10
)
"""


def submission(lesson):
    return add_cell(solved(lesson), guarded(OPEN), before="setup")
