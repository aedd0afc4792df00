"""Stops before the square root.

Told: the square root is missing
Fails: each distance; four digits
"""


def pairwise_distances(points, queries):
    def block(points, queries):
        return ((points[:, None] - queries) ** 2).sum(-1)

    return jax.pmap(block, in_axes=(0, None))(points, queries)
