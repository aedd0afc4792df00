"""A loop without an end inside the compiled program, which the judge would run."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"parallel_square": 0}
SLOW = True

SQUARE = """
def parallel_square(x):
    def run(row):
        return jax.lax.while_loop(lambda r: True, lambda r: r * r, row)

    return jax.pmap(run)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=guarded(SQUARE))
