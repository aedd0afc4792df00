"""Divides by the variance and takes no root.

Told: none
Fails: statistics of all devices; normalised rows; accurate far from 0
"""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean(((x - mean) ** 2).mean(axis=0), axis_name)
    return (x - mean) / (var + eps), mean, var
