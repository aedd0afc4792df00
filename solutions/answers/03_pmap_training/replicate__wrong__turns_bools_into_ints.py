"""Takes bool for a kind of int, as Python does.

Told: none
Fails: dtypes stay
"""


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")

    def array(leaf):
        if isinstance(leaf, int):
            return jnp.int32(leaf)
        return jnp.asarray(leaf)

    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(num_devices), jax.tree.map(array, tree))


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
