"""Turns off compilation to look for a mistake and leaves it off."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    return add_cell(solved(lesson), 'jax.config.update("jax_disable_jit", True)')
