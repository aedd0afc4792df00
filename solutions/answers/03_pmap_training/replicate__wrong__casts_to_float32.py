"""Thinks that everything on a device is float32.

Told: none
Fails: a row on each device; dtypes stay
"""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    tree = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)
    return jax.pmap(lambda _, whole: whole, in_axes=(0, None))(
        np.arange(num_devices), tree
    )


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
