"""Divides by one row less.

Told: none
Fails: statistics of all devices; normalised rows
"""


def sync_batch_norm(x, axis_name, eps):
    rows = len(x) * lax.axis_size(axis_name)
    mean = lax.psum(x.sum(axis=0), axis_name) / rows
    var = lax.psum(((x - mean) ** 2).sum(axis=0), axis_name) / max(rows - 1, 1)
    return (x - mean) / jnp.sqrt(var + eps), mean, var
