"""Sums over the first axis only: right for vectors, not for other blocks.

Told: none
Fails: the mean of all devices; 0 where nothing counts; masked entries do not matter;
two numbers are sent
"""


def masked_mean(x, mask, axis_name):
    total = lax.psum(jnp.where(mask, x, 0).sum(0), axis_name)
    return total / jnp.maximum(lax.psum(mask.sum(0), axis_name), 1)
