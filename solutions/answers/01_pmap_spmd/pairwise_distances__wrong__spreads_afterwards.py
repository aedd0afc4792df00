"""Loops over all points on one device, and spreads the result.

Told: none
Fails: row d on device d
"""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def pairwise_distances(points, queries):
    def row(point):
        return jnp.sqrt(((point - queries) ** 2).sum(-1))

    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(points)]), ("d",))
    distances = jax.lax.map(lambda block: jax.lax.map(row, block), points)
    return jax.device_put(distances, NamedSharding(mesh, P("d")))
