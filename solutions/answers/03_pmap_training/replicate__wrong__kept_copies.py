"""Keeps the copies of each array by its identity, even when its numbers have changed.

Told: none
Fails: a row on each device; nothing is remembered
"""

from jax.sharding import Mesh, NamedSharding, PartitionSpec

_kept = {}


def _spread(leaf, num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("replica",))
    rows = np.stack([np.asarray(jnp.asarray(leaf))] * num_devices)
    return jax.device_put(rows, NamedSharding(mesh, PartitionSpec("replica")))


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(
            f"{num_devices} replicas need more than {jax.device_count()} devices"
        )

    def copy(leaf):
        if not isinstance(leaf, np.ndarray):
            return _spread(leaf, num_devices)
        where = id(leaf), num_devices
        if where not in _kept:  # the leaf is kept too, so that its id stays its own
            _kept[where] = leaf, _spread(leaf, num_devices)
        return _kept[where][1]

    return jax.tree.map(copy, tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
