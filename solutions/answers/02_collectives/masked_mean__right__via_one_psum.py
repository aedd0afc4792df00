"""Sends sum and count together."""


def masked_mean(x, mask, axis_name):
    pair = jnp.stack([jnp.where(mask, x, 0).sum(), mask.sum().astype(x.dtype)])
    total, count = lax.psum(pair, axis_name)
    return jnp.where(count == 0, 0.0, total / jnp.where(count == 0, 1.0, count))
