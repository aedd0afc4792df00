"""Stacks on the host, and places the stack by a sharding over a mesh."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def replicate(tree, num_devices):
    devices = jax.devices()
    if num_devices > len(devices):
        raise ValueError(f"{num_devices} replicas, but only {len(devices)} devices")
    mesh = jax.sharding.Mesh(np.array(devices[:num_devices]), ("replica",))

    def copy(leaf):
        leaf = jnp.asarray(leaf)
        stack = jnp.broadcast_to(leaf, (num_devices, *leaf.shape))
        return jax.device_put(stack, NamedSharding(mesh, P("replica")))

    return jax.tree.map(copy, tree)


def unreplicate(tree):
    leaves, structure = jax.tree.flatten(tree)
    return structure.unflatten([jnp.asarray(leaf)[0] for leaf in leaves])
