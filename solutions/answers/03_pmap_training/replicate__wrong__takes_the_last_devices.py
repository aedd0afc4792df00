"""Counts devices from the end: the values are right, the places are not.

Told: none
Fails: a row on each device
"""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    copy = jax.pmap(
        lambda _, whole: whole,
        in_axes=(0, None),
        devices=jax.devices()[-num_devices:],
    )
    return copy(np.arange(num_devices), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
