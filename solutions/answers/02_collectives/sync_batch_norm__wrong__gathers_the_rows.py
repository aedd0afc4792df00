"""Sends the whole batch to every device.

Told: the rows were sent
Fails: rows stay on their device; two numbers per feature are sent
"""


def sync_batch_norm(x, axis_name, eps):
    rows = lax.all_gather(x, axis_name, tiled=True)
    mean, var = rows.mean(axis=0), rows.var(axis=0)
    return (x - mean) / jnp.sqrt(var + eps), mean, var
