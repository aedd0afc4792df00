"""Takes the mean of the replicas: another dtype for integers, and it hides drift.

Told: the replicas were averaged
Fails: the first replica
"""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    return jax.pmap(lambda _, whole: whole, in_axes=(0, None))(
        np.arange(num_devices), tree
    )


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf.mean(0).astype(leaf.dtype), tree)
