"""Takes infinite entries for padding, also where the mask counts them.

Told: none
Fails: the mean of all devices; masked entries do not matter
"""


def masked_mean(x, mask, axis_name):
    kept = jnp.where(jnp.isinf(x), 0, jnp.where(mask, x, 0))
    total, count = lax.psum((kept.sum(), mask.sum()), axis_name)
    return total / jnp.maximum(count, 1)
