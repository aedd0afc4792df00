"""One device waits in a collective that the others never enter."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"parallel_square": 0}
SLOW = True

SQUARE = """
def parallel_square(x):
    def run(row):
        is_first = jax.lax.axis_index("d") == 0
        total = lambda r: jax.lax.psum(r, "d")
        return jax.lax.cond(is_first, total, lambda r: r + 0 * r, row)

    return jax.pmap(run, axis_name="d")(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=guarded(SQUARE))
