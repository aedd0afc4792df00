"""A program that carries a constant of 256 MB."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"parallel_square": 0}

SQUARE = """
BIG = np.arange(2**26, dtype=np.float32)


def parallel_square(x):
    big = jnp.asarray(BIG)
    return jax.pmap(lambda row: row * row + (big.sum() + 1).astype(row.dtype))(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=guarded(SQUARE))
