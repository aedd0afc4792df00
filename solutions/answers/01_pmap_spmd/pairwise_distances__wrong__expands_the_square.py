"""Saves memory by |p|^2 - 2pq + |q|^2, which cancels far from the origin.

Told: right near 0, not near 1000: what is subtracted after squaring cancels
Fails: each distance; four digits
"""


def pairwise_distances(points, queries):
    def block(points, queries):
        squares = (points**2).sum(-1)[:, None] + (queries**2).sum(-1)[None, :]
        return jnp.sqrt(jnp.maximum(squares - 2 * points @ queries.T, 0))

    return jax.pmap(block, in_axes=(0, None))(points, queries)
