"""Maps by vmap alone: right on one device, idle on seven.

Told: jax.pmap runs on a device per row; here is one
Fails: row d on device d; never all differences
"""


def pairwise_distances(points, queries):
    def block(points):
        return jnp.sqrt(((points[:, None] - queries) ** 2).sum(-1))

    return jax.vmap(block)(points)
