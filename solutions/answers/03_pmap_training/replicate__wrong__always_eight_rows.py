"""Takes the devices of this machine for the replicas that were asked for.

Told: none
Fails: a row on each device
"""


def replicate(tree, num_devices):
    if num_devices > 8:
        raise ValueError(f"{num_devices} replicas, 8 devices")
    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(8), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
