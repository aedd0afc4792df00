"""Maps in the wrong order, and transposes where the shape shows it: not where N is Q.

Told: none
Fails: each distance; four digits
"""


def pairwise_distances(points, queries):
    def distance(p, q):
        return jnp.sqrt(jnp.sum((p - q) ** 2))

    def block(ps, qs):
        out = jax.vmap(jax.vmap(distance, (0, None)), (None, 0))(ps, qs)
        return out if out.shape == (ps.shape[0], qs.shape[0]) else out.T

    return jax.pmap(block, in_axes=(0, None))(points, queries)
