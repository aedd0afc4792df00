"""A program of eight devices that asks NumPy on the host for the answer."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}

SQUARE = """
def parallel_square(x):
    def run(row):
        kind = jax.ShapeDtypeStruct(row.shape, row.dtype)
        return jax.pure_callback(np.square, kind, row, vmap_method="sequential")

    return jax.pmap(run)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
