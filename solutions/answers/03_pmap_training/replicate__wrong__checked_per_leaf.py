"""Compares the number of devices leaf by leaf: a tree without leaves raises nothing.

Told: none
Fails: too many replicas
"""

from jax.sharding import Mesh, NamedSharding, PartitionSpec


def replicate(tree, num_devices):
    def copy(leaf):
        devices = jax.devices()
        if num_devices > len(devices):
            raise ValueError(
                f"cannot put {num_devices} replicas on {len(devices)} devices"
            )
        mesh = Mesh(devices[:num_devices], ("replica",))
        rows = np.stack([np.asarray(jnp.asarray(leaf))] * num_devices)
        return jax.device_put(rows, NamedSharding(mesh, PartitionSpec("replica")))

    return jax.tree.map(copy, tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
