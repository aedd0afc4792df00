"""Lets each device ask for its row, by jax.make_array_from_callback."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


class Replicator:
    def __init__(self, num_devices):
        present = jax.local_device_count()
        if num_devices > present:
            raise ValueError(f"only {present} devices for {num_devices} replicas")
        mesh = jax.make_mesh(
            (num_devices,), ("r",), devices=jax.devices()[:num_devices]
        )
        self.sharding, self.count = NamedSharding(mesh, P("r")), num_devices

    def __call__(self, leaf):
        row = np.asarray(jnp.asarray(leaf))[None]
        shape = (self.count, *row.shape[1:])
        return jax.make_array_from_callback(shape, self.sharding, lambda index: row)


def replicate(tree, num_devices):
    return jax.tree.map(Replicator(num_devices), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], tree)
