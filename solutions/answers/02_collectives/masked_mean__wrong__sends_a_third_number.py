"""Asks, needlessly, whether anything counts anywhere.

Told: none
Fails: two numbers are sent
"""


def masked_mean(x, mask, axis_name):
    total = lax.psum(jnp.where(mask, x, 0).sum(), axis_name)
    count = lax.psum(mask.sum(), axis_name)
    counts = lax.pmax(mask.any().astype(jnp.int32), axis_name)
    return jnp.where(counts, total / jnp.maximum(count, 1), 0)
