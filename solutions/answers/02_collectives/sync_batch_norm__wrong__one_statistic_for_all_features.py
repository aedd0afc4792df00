"""Takes mean and variance over the features, too.

Told: none
Fails: statistics of all devices; normalised rows; accurate far from 0
"""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(), axis_name) * jnp.ones(x.shape[1])
    var = lax.pmean(((x - mean) ** 2).mean(), axis_name) * jnp.ones(x.shape[1])
    return (x - mean) / jnp.sqrt(var + eps), mean, var
