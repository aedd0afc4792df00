"""Broadcasts by jit, straight into the layout that out_shardings asks for."""

from jax.sharding import Mesh, NamedSharding, PartitionSpec


def observe_devices(number):
    found = jax.devices()[:number]
    if len(found) < number:
        raise ValueError(f"asked for {number} devices, there are {len(found)}")
    return NamedSharding(Mesh(found, ("copies",)), PartitionSpec("copies"))


def replicate(tree, num_devices):
    place = observe_devices(num_devices)

    def expect(leaf):
        return jnp.broadcast_to(leaf, (num_devices, *jnp.shape(leaf)))

    spread = jax.jit(lambda whole: jax.tree.map(expect, whole), out_shardings=place)
    return spread(tree)


def unreplicate(tree):
    return jax.jit(lambda whole: jax.tree.map(lambda leaf: leaf[0], whole))(tree)
