"""Averages the devices' variances and forgets that their means differ.

Told: variances were averaged, but the means differ too
Fails: statistics of all devices; normalised rows; accurate far from 0
"""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean(x.var(axis=0), axis_name)
    return (x - mean) / jnp.sqrt(var + eps), mean, var
