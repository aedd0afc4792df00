"""Turns everything into floats first.

Told: none
"""


def parallel_square(x):
    return jax.pmap(lambda row: row.astype(jnp.float32) ** 2)(x)
