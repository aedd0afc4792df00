"""Sends the whole array to every device: each device does all of the work.

Told: none
Fails: row d on device d
"""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_square(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    return jax.device_put(jnp.asarray(x) ** 2, NamedSharding(mesh, P()))
