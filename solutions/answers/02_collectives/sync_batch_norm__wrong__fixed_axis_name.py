"""Writes the axis name of the lesson's examples into the function.

Told: a collective names an axis that nobody bound: use the argument axis_name, or the
name that pmap was given
Fails: any axis name
"""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), "i")
    var = lax.pmean(((x - mean) ** 2).mean(axis=0), "i")
    return (x - mean) / jnp.sqrt(var + eps), mean, var
