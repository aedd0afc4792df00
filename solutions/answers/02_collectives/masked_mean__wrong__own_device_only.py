"""Is right on one device and on eight forgets the other seven.

Told: each device kept its own mean: nothing was sent
Fails: the mean of all devices; masked entries do not matter
"""


def masked_mean(x, mask, axis_name):
    return jnp.where(mask, x, 0).sum() / jnp.maximum(mask.sum(), 1)
