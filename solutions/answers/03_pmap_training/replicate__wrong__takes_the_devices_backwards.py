"""Hands the rows to the devices in the opposite order.

Told: none
Fails: a row on each device
"""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    devices = jax.devices()[:num_devices][::-1]
    place = NamedSharding(jax.sharding.Mesh(np.array(devices), ("r",)), P("r"))

    def copy(leaf):
        return jax.device_put(jnp.stack([jnp.asarray(leaf)] * num_devices), place)

    return jax.tree.map(copy, tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
