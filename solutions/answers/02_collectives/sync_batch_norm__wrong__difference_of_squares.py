"""Subtracts two large numbers and keeps none of their digits.

Told: mean(x**2) - mean(x)**2 loses all digits here: take distances from the mean
Fails: accurate far from 0; any number of devices
"""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean((x**2).mean(axis=0), axis_name) - mean**2
    return (x - mean) / jnp.sqrt(jnp.maximum(var, 0) + eps), mean, var
