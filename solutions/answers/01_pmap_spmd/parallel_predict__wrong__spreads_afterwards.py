"""Multiplies everything on one device, and spreads the result.

Told: none
Fails: row d on device d
"""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_predict(params, x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    result = jax.vmap(predict, in_axes=(None, 0))(params, x)
    return jax.device_put(result, NamedSharding(mesh, P("d")))
