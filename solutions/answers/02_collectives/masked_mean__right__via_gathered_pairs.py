"""Gathers two numbers of each device and adds them up there."""


def masked_mean(x, mask, axis_name):
    pair = jnp.array([jnp.where(mask, x, 0.0).sum(), jnp.count_nonzero(mask)])
    total, count = lax.all_gather(pair, axis_name).sum(axis=0)
    return jnp.where(count, total / jnp.where(count, count, 1), 0.0)
