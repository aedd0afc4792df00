"""Protects the division before the sum: an empty device counts as one entry.

Told: none
Fails: the mean of all devices; masked entries do not matter
"""


def masked_mean(x, mask, axis_name):
    total = lax.psum(jnp.where(mask, x, 0).sum(), axis_name)
    return total / lax.psum(jnp.maximum(mask.sum(), 1), axis_name)
