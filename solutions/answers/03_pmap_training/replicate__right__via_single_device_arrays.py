"""Puts a row on each device, and calls the rows one array."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def replicate(tree, num_devices):
    devices = jax.devices()
    assert num_devices >= 1, "no replica"
    if num_devices > len(devices):
        raise ValueError(f"{num_devices} > {len(devices)}")
    chosen = np.array(devices[:num_devices])
    sharding = NamedSharding(jax.sharding.Mesh(chosen, "i"), P("i"))
    leaves, kind = jax.tree_util.tree_flatten(tree)
    stacks = []
    for leaf in leaves:
        row = jnp.expand_dims(jnp.array(leaf), 0)
        rows = [jax.device_put(row, device) for device in chosen]
        shape = (num_devices, *row.shape[1:])
        stacks.append(jax.make_array_from_single_device_arrays(shape, sharding, rows))
    return jax.tree_util.tree_unflatten(kind, stacks)


def unreplicate(tree):
    def check(leaf):
        return jnp.reshape(leaf[0:1], leaf.shape[1:])

    return jax.tree_util.tree_map(check, tree)
