"""Keeps copies by structure and shapes, as if they were programs.

Told: none
Fails: a row on each device; dtypes stay; nothing is remembered
"""

made = {}


def replicate(tree, num_devices):
    if num_devices > jax.device_count():
        raise ValueError(f"{num_devices} replicas, {jax.device_count()} devices")
    key = str(jax.tree.map(jnp.shape, tree)), num_devices
    if key not in made:
        copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
        made[key] = copy(np.arange(num_devices), tree)
    return made[key]


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
