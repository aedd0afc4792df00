"""Names the row's axis in an einsum: other ranks fail.

Told: none
Fails: each number squared; shape and dtype stay
"""


def parallel_square(x):
    return jax.pmap(lambda row: jnp.einsum("i,i->i", row, row))(x)
