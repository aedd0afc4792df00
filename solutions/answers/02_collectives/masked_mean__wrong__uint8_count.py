"""Counts in 8 bits: more than 255 entries begin again at 0.

Told: none
Fails: the mean of all devices
"""

from jax import lax


def masked_mean(x, mask, axis_name):
    kept = jnp.where(mask, x, 0).sum()
    count = mask.astype(jnp.uint8).sum(dtype=jnp.uint8)
    total, count = lax.psum(kept, axis_name), lax.psum(count, axis_name)
    return total / jnp.maximum(count, 1).astype(x.dtype)
