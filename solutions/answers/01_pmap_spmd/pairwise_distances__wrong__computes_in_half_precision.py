"""Computes in bfloat16: eight bits are fewer than four digits.

Told: none
Fails: each distance; four digits
"""


def pairwise_distances(points, queries):
    def block(points, queries):
        gaps = (points[:, None] - queries).astype(jnp.bfloat16)
        return jnp.sqrt((gaps**2).sum(-1)).astype(jnp.float32)

    return jax.pmap(block, in_axes=(0, None))(points, queries)
