# %% wrong="difference of squares" fails="accurate far from 0"
# cause: the difference mean(x**2) - mean(x)**2 loses all digits here: take distances from the mean
"""Subtracts two large numbers and keeps none of their digits."""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean((x**2).mean(axis=0), axis_name) - mean**2
    return (x - mean) / jnp.sqrt(jnp.maximum(var, 0) + eps), mean, var


# %% wrong="eight devices" fails="any axis"
"""Counts the rows of eight devices."""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.psum(x.sum(axis=0), axis_name) / (8 * len(x))
    var = lax.psum(((x - mean) ** 2).sum(axis=0), axis_name) / (8 * len(x))
    return (x - mean) / jnp.sqrt(var + eps), mean, var


# %% wrong="eps of the check" fails="statistics of all rows"
"""Writes the eps of the visible check into the code."""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean(((x - mean) ** 2).mean(axis=0), axis_name)
    return (x - mean) / jnp.sqrt(var + 0.5), mean, var


# %% wrong="eps outside the root" fails="statistics of all rows"
# cause: eps was added outside of the root
"""Adds eps to the standard deviation and not to the variance."""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean(((x - mean) ** 2).mean(axis=0), axis_name)
    return (x - mean) / (jnp.sqrt(var) + eps), mean, var


# %% wrong="fixed axis name" fails="any axis"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Writes the axis name of the lesson's examples into the function."""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), "i")
    var = lax.pmean(((x - mean) ** 2).mean(axis=0), "i")
    return (x - mean) / jnp.sqrt(var + eps), mean, var


# %% wrong="gathers the rows" fails="rows stay local"
# cause: the rows were sent
"""Sends the whole batch to every device."""


def sync_batch_norm(x, axis_name, eps):
    rows = lax.all_gather(x, axis_name, tiled=True)
    mean, var = rows.mean(axis=0), rows.var(axis=0)
    return (x - mean) / jnp.sqrt(var + eps), mean, var


# %% wrong="ignores eps" fails="statistics of all rows"
"""Writes a usual eps into the code."""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean(((x - mean) ** 2).mean(axis=0), axis_name)
    return (x - mean) / jnp.sqrt(var + 1e-5), mean, var


# %% wrong="mean of variances" fails="statistics of all rows"
# cause: variances were averaged, but the means differ too
"""Averages the devices' variances and forgets that their means differ."""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean(x.var(axis=0), axis_name)
    return (x - mean) / jnp.sqrt(var + eps), mean, var


# %% wrong="normalises by the variance" fails="statistics of all rows"
"""Divides by the variance and takes no root."""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean(((x - mean) ** 2).mean(axis=0), axis_name)
    return (x - mean) / (var + eps), mean, var


# %% wrong="one shift for all features" fails="accurate far from 0"
"""Takes one number off all features: each has another mean, so squares stay large."""


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


# %% wrong="one statistic for all features" fails="statistics of all rows"
"""Takes mean and variance over the features, too."""


def sync_batch_norm(x, axis_name, eps):
    mean = lax.pmean(x.mean(), axis_name) * jnp.ones(x.shape[1])
    var = lax.pmean(((x - mean) ** 2).mean(), axis_name) * jnp.ones(x.shape[1])
    return (x - mean) / jnp.sqrt(var + eps), mean, var


# %% wrong="own rows" fails="statistics of all rows"
# cause: each device used its own rows only
"""Uses the statistics of its own rows: right on one device only."""


def sync_batch_norm(x, axis_name, eps):
    mean, var = x.mean(axis=0), x.var(axis=0)
    return (x - mean) / jnp.sqrt(var + eps), mean, var


# %% wrong="rounded shift" fails="statistics of all rows"
"""Breaks "mean, var over all rows of all devices": each device shifts by its own mean
rounded to thousands; wrong where the devices round differently (features around 500
or 10,500).
"""


def sync_batch_norm(x, axis_name, eps):
    shift = jnp.round(x.mean(0) / 1000) * 1000  # the same everywhere, surely
    small = x - shift
    mean = lax.pmean(small.mean(0), axis_name)
    squares = lax.pmean((small**2).mean(0), axis_name)
    var = jnp.maximum(squares - mean**2, 0)
    return (small - mean) / jnp.sqrt(var + eps), mean + shift, var


# %% wrong="unbiased variance" fails="statistics of all rows"
# cause: squares were divided by the number of rows less one
"""Divides by one row less."""


def sync_batch_norm(x, axis_name, eps):
    rows = len(x) * lax.axis_size(axis_name)
    mean = lax.psum(x.sum(axis=0), axis_name) / rows
    var = lax.psum(((x - mean) ** 2).sum(axis=0), axis_name) / max(rows - 1, 1)
    return (x - mean) / jnp.sqrt(var + eps), mean, var


# %% right="via counted rows"
"""Counts the rows of all devices, too."""


def sync_batch_norm(x, axis_name, eps):
    rows = lax.psum(jnp.ones_like(x).sum(axis=0), axis_name)
    mean = lax.psum(x.sum(axis=0), axis_name) / rows
    var = lax.psum(((x - mean) ** 2).sum(axis=0), axis_name) / rows
    return (x - mean) / jnp.sqrt(var + eps), mean, var


# %% right="via einsum"
"""Adds up squares by einsum and counts rows by a psum of 1."""


def sync_batch_norm(x, axis_name, eps):
    rows = x.shape[0] * lax.psum(1, axis_name)
    mean = lax.psum(jnp.einsum("bf->f", x), axis_name) / rows
    far = x - mean[None, :]
    var = lax.psum(jnp.einsum("bf,bf->f", far, far), axis_name) / rows
    std = jnp.sqrt(var + eps)
    return jnp.divide(far, std), mean, var


# %% right="via gathered moments"
"""Gathers each device's mean and variance and combines them there."""


def sync_batch_norm(x, axis_name, eps):
    own = jnp.stack([jnp.mean(x, 0), jnp.var(x, 0)])
    means, variances = lax.all_gather(own, axis_name, axis=1)
    mean = means.mean(0)
    var = variances.mean(0) + means.var(0)
    return (x - mean) / (var + eps) ** 0.5, mean, var


# %% right="via namedtuple"
"""Returns a named tuple, and averages by a helper of its own."""

from collections import namedtuple

Normed = namedtuple("Normed", ["y", "mean", "var"])


def sync_batch_norm(x, axis_name, eps):
    def average(rows):
        own = {"rows": rows.mean(axis=0, keepdims=True)}
        return lax.pmean(own, axis_name)["rows"]

    mean = average(x)
    var = average(jnp.abs(x - mean) ** 2)
    y = (x - mean) / jnp.sqrt(var + eps)
    return Normed(y, mean[0], jnp.squeeze(var, axis=0))


# %% right="via parallel variance"
"""Adds the variance of the devices' means to the mean of their variances."""


def sync_batch_norm(x, axis_name, eps):
    own = x.mean(axis=0)
    mean = lax.pmean(own, axis_name)
    var = lax.pmean(x.var(axis=0) + (own - mean) ** 2, axis_name)
    return (x - mean) * lax.rsqrt(var + eps), mean, var


# %% right="via shifted moments"
"""Takes a common shift off first: then two moments are accurate, in all nine numbers."""


def sync_batch_norm(x, axis_name, eps):
    shift = lax.pmean(x.mean(axis=0), axis_name)
    near = x - shift
    first, second = lax.pmean((near.mean(axis=0), (near**2).mean(axis=0)), axis_name)
    mean, var = shift + first, second - first**2
    return (x - mean) / jnp.sqrt(var + eps), mean, var


# %% right="via sums"
"""Sums and divides by the number of all rows."""


def sync_batch_norm(x, axis_name, eps):
    rows = len(x) * lax.axis_size(axis_name)
    mean = lax.psum(x.sum(axis=0), axis_name) / rows
    centred = x - mean
    var = lax.psum((centred**2).sum(axis=0), axis_name) / rows
    return centred / jnp.sqrt(var + eps), mean, var


# %% right="via vmap"
"""Works on one feature, mapped over the features."""


def sync_batch_norm(x, axis_name, eps):
    def of_feature(column):
        mean = lax.pmean(column.mean(), axis_name)
        centred = column - mean
        var = lax.pmean(jnp.square(centred).mean(), axis_name)
        return centred * lax.rsqrt(var + eps), mean, var

    return jax.vmap(of_feature, in_axes=1, out_axes=(1, 0, 0))(x)


# %% wrong="sends a sum of every 4 rows" fails="rows stay local"
"""Sends sums of four rows each."""


def sync_batch_norm(x, axis_name, eps):
    rows = len(x) * lax.axis_size(axis_name)

    def total(a):
        padded = jnp.pad(a, ((0, -len(a) % 4), (0, 0)))
        parts = padded.reshape(-1, 4, a.shape[1]).sum(axis=1)
        return lax.psum(parts, axis_name).sum(axis=0)

    mean = total(x) / rows
    var = total((x - mean) ** 2) / rows
    return (x - mean) / jnp.sqrt(var + eps), mean, var
