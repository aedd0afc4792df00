"""A small program that asks for 4 GB when it runs, in the judge's process."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"parallel_square": 0}
SLOW = True

SQUARE = """
def parallel_square(x):
    def run(row):
        start = row.ravel()[0].astype(jnp.float32)
        long = jax.lax.cumsum(start + jax.lax.iota(jnp.float32, 2**27))
        return row * row + jnp.sort(long[:: 2**10])[-1].astype(row.dtype)

    return jax.pmap(run)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=guarded(SQUARE))
