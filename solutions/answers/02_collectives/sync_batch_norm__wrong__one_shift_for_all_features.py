"""Takes one number off all features: each lies elsewhere, so squares stay large.

Told: none
Fails: accurate far from 0; any number of devices
"""


def sync_batch_norm(x, axis_name, eps):
    shift = x.mean()  # takes the offset off, then the quick formula is accurate
    moved = x - shift
    local_mean = moved.mean(axis=0)
    local_var = (moved**2).mean(axis=0) - local_mean**2
    means, variances = lax.all_gather((shift + local_mean, local_var), axis_name)
    mean = means.mean(axis=0)
    var = variances.mean(axis=0) + ((means - mean) ** 2).mean(axis=0)
    var = jnp.maximum(var, 0)
    return (x - mean) / jnp.sqrt(var + eps), mean, var
