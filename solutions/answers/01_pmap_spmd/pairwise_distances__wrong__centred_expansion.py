"""Subtracts the queries' mean, then expands the square: cancels where points lie apart.

Told: none
Fails: four digits
"""


def pairwise_distances(points, queries):
    def block(ps, qs):
        centre = qs.mean(axis=0)
        ps, qs = ps - centre, qs - centre
        dots = jnp.matmul(ps, qs.T, precision="highest")
        squares = (ps**2).sum(1)[:, None] - 2 * dots + (qs**2).sum(1)
        return jnp.sqrt(jnp.maximum(squares, 0))

    return jax.pmap(block, in_axes=(0, None))(points, queries)
