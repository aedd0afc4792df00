"""Sums the numbers of rows, which all devices know.

Told: none
Fails: two numbers per feature are sent
"""


def sync_batch_norm(x, axis_name, eps):
    rows = lax.psum(jnp.ones_like(x).sum(axis=0), axis_name)
    mean = lax.psum(x.sum(axis=0), axis_name) / rows
    var = lax.psum(((x - mean) ** 2).sum(axis=0), axis_name) / rows
    return (x - mean) / jnp.sqrt(var + eps), mean, var
