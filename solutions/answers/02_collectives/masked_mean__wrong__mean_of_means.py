"""Averages the devices' means, although they count differently many entries.

Told: this is the mean of the devices' means
Fails: the mean of all devices; masked entries do not matter
"""


def masked_mean(x, mask, axis_name):
    own = jnp.where(mask, x, 0).sum() / jnp.maximum(mask.sum(), 1)
    return lax.pmean(own, axis_name)
