"""Logs everything, of every library."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

LOGGING = """
import logging
import sys

logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, force=True)
logging.getLogger("jax").setLevel(logging.DEBUG)
logging.debug("here we go")
"""


def submission(lesson):
    return add_cell(solved(lesson), LOGGING)
