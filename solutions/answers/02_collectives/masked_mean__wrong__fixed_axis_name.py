"""Writes the axis name of the lesson's examples into the function.

Told: a collective names an axis that nobody bound: use the argument axis_name, or the
name that pmap was given
Fails: any axis name
"""


def masked_mean(x, mask, axis_name):
    total = lax.psum(jnp.where(mask, x, 0).sum(), "i")
    return total / jnp.maximum(lax.psum(mask.sum(), "i"), 1)
