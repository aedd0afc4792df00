"""An error inside a callback, which shows only when somebody waits for the result."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}

SQUARE = """
def fails(row):
    raise ValueError("on the host, some time later")


def parallel_square(x):
    def run(row):
        return jax.pure_callback(fails, jax.ShapeDtypeStruct(row.shape, row.dtype), row)

    return jax.pmap(run)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
