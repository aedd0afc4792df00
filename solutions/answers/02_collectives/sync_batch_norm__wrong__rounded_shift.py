"""Breaks "mean, var over all rows of all devices": each device shifts by its own mean
rounded to thousands; wrong where the devices round differently (features around 500
or 10,500).

Told: none
Fails: accurate far from 0; any number of devices
"""


def sync_batch_norm(x, axis_name, eps):
    shift = jnp.round(x.mean(0) / 1000) * 1000  # the same everywhere, surely
    small = x - shift
    mean = lax.pmean(small.mean(0), axis_name)
    squares = lax.pmean((small**2).mean(0), axis_name)
    var = jnp.maximum(squares - mean**2, 0)
    return (small - mean) / jnp.sqrt(var + eps), mean + shift, var
