"""Lets pmap complain, which tells of 16 replicas that 2 does not equal 1.

Told: none
Fails: too many replicas
"""


def replicate(tree, num_devices):
    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(num_devices), tree)


def unreplicate(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
