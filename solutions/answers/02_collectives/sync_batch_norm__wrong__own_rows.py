"""Uses the statistics of its own rows: right on one device only.

Told: each device used its own rows only
Fails: statistics of all devices; normalised rows; accurate far from 0
"""


def sync_batch_norm(x, axis_name, eps):
    mean, var = x.mean(axis=0), x.var(axis=0)
    return (x - mean) / jnp.sqrt(var + eps), mean, var
