"""Gives fewer replicas than asked for, without a word.

Told: none
Fails: too many replicas
"""


def replicate(tree, num_devices):
    numbers = np.arange(min(num_devices, jax.device_count()))
    return jax.pmap(lambda _, whole: whole, in_axes=(0, None))(numbers, tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
