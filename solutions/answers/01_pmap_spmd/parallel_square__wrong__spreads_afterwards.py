"""Squares all rows on one device, and spreads the result: the others only store.

Told: none
Fails: row d on device d
"""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    squares = jax.vmap(lambda row: row**2)(x)
    return jax.device_put(squares, NamedSharding(mesh, P("d")))
