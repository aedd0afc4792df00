"""Builds all differences on one device before it spreads the rest of the work.

Told: none
Fails: row d on device d; never all differences
"""


def pairwise_distances(points, queries):
    gaps = jnp.asarray(points)[:, :, None] - queries
    return jax.pmap(lambda gaps: jnp.sqrt((gaps**2).sum(-1)))(gaps)
