"""An answer whose helper and constant stand in cells of their own before it."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

SQUARE = "def parallel_square(x):\n    return jax.pmap(square)(x)"


def submission(lesson):
    notebook = solved(lesson, parallel_square=SQUARE)
    add_cell(notebook, "POWER = 2", before="parallel_square")
    helper = "def square(row):\n    return row**POWER"
    return add_cell(notebook, helper, before="parallel_square")
