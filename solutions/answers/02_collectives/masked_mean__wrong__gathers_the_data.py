"""Sends all the data to all devices to average it there.

Told: the data was sent, not its sum and count
Fails: entries stay on their device; two numbers are sent
"""


def masked_mean(x, mask, axis_name):
    x, mask = lax.all_gather(x, axis_name), lax.all_gather(mask, axis_name)
    return jnp.where(mask, x, 0).sum() / jnp.maximum(mask.sum(), 1)
