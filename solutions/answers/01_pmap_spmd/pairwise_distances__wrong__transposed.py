"""Nests the two vmaps the other way round: (D, Q, N) instead of (D, N, Q).

Told: none
Fails: each distance; four digits
"""


def pairwise_distances(points, queries):
    def distance(point, query):
        return jnp.sqrt(((point - query) ** 2).sum())

    to_points = jax.vmap(distance, in_axes=(0, None))
    block = jax.vmap(to_points, in_axes=(None, 0))
    return jax.pmap(block, in_axes=(0, None))(points, queries)
