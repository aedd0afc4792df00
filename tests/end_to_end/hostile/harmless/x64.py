"""Turns on 64-bit numbers and leaves them on."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    return add_cell(solved(lesson), 'jax.config.update("jax_enable_x64", True)')
