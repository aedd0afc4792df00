# %% wrong="counts one on each device" fails="mean of all entries"
# cause: a device where nothing counts was counted as one entry
"""Protects the division before the sum: an empty device counts as one entry."""


def masked_mean(x, mask, axis_name):
    total = lax.psum(jnp.where(mask, x, 0).sum(), axis_name)
    return total / lax.psum(jnp.maximum(mask.sum(), 1), axis_name)


# %% wrong="divides by nothing" fails="empty mask"
# cause: 0 / 0: nothing counts on any device
"""Divides by zero where no entry counts anywhere."""


def masked_mean(x, mask, axis_name):
    total = lax.psum(jnp.where(mask, x, 0).sum(), axis_name)
    return total / lax.psum(mask.sum(), axis_name)


# %% wrong="drops nan alone" fails="padding ignored; empty mask"
# cause: every nan was dropped, those that count, too
"""Takes care of nan and forgets infinity."""


def masked_mean(x, mask, axis_name):
    count = lax.psum(mask.sum(), axis_name)
    weights = mask / jnp.maximum(count, 1)
    return lax.psum((jnp.where(jnp.isnan(x), 0, x) * weights).sum(), axis_name)


# %% wrong="eight devices" fails="any axis"
"""Writes the number of devices into the code."""


def masked_mean(x, mask, axis_name):
    total = lax.pmean(jnp.where(mask, x, 0).sum(), axis_name) * 8
    return total / jnp.maximum(lax.psum(mask.sum(), axis_name), 1)


# %% wrong="fixed axis name" fails="any axis"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Writes the axis name of the lesson's examples into the function."""


def masked_mean(x, mask, axis_name):
    total = lax.psum(jnp.where(mask, x, 0).sum(), "i")
    return total / jnp.maximum(lax.psum(mask.sum(), "i"), 1)


# %% wrong="gathers the data" fails="only sums travel"
# cause: the data was sent, not its sum and count
"""Sends all the data to all devices to average it there."""


def masked_mean(x, mask, axis_name):
    x, mask = lax.all_gather(x, axis_name), lax.all_gather(mask, axis_name)
    return jnp.where(mask, x, 0).sum() / jnp.maximum(mask.sum(), 1)


# %% wrong="leaves counted inf out" fails="padding ignored"
"""Takes infinite entries for padding, also where the mask counts them."""


def masked_mean(x, mask, axis_name):
    kept = jnp.where(jnp.isinf(x), 0, jnp.where(mask, x, 0))
    total, count = lax.psum((kept.sum(), mask.sum()), axis_name)
    return total / jnp.maximum(count, 1)


# %% wrong="mean of means" fails="mean of all entries"
# cause: this is the mean of the devices' means
"""Averages the devices' means, although they count differently many entries."""


def masked_mean(x, mask, axis_name):
    own = jnp.where(mask, x, 0).sum() / jnp.maximum(mask.sum(), 1)
    return lax.pmean(own, axis_name)


# %% wrong="mean of raw means" fails="mean of all entries; empty mask"
# cause: this is a mean of means: on device 0 nothing counts, 0 / 0
"""Averages the devices' means; one of them counts nothing."""


def masked_mean(x, mask, axis_name):
    return lax.pmean(jnp.where(mask, x, 0).sum() / mask.sum(), axis_name)


# %% wrong="nan to num" fails="padding ignored"
# cause: every nan was dropped, those that count, too
"""Hides a counted nan: the mean becomes 0."""


def masked_mean(x, mask, axis_name):
    total = lax.psum(jnp.where(mask, x, 0).sum(), axis_name)
    count = lax.psum(mask.sum(), axis_name)
    return jnp.nan_to_num(total / count)


# %% wrong="own device only" fails="mean of all entries"
# cause: each device kept its own mean: nothing was sent
"""Is right on one device and on eight forgets the other seven."""


def masked_mean(x, mask, axis_name):
    return jnp.where(mask, x, 0).sum() / jnp.maximum(mask.sum(), 1)


# %% wrong="sums one axis only" fails="mean of all entries; padding ignored; empty mask"
"""Sums over the first axis only: right for vectors, not for other blocks."""


def masked_mean(x, mask, axis_name):
    total = lax.psum(jnp.where(mask, x, 0).sum(0), axis_name)
    return total / jnp.maximum(lax.psum(mask.sum(0), axis_name), 1)


# %% wrong="uint8 count" fails="mean of all entries"
"""Counts in 8 bits: more than 255 entries begin again at 0."""

from jax import lax


def masked_mean(x, mask, axis_name):
    kept = jnp.where(mask, x, 0).sum()
    count = mask.astype(jnp.uint8).sum(dtype=jnp.uint8)
    total, count = lax.psum(kept, axis_name), lax.psum(count, axis_name)
    return total / jnp.maximum(count, 1).astype(x.dtype)


# %% wrong="weights of zero" fails="padding ignored; empty mask"
# cause: nan times 0 is nan: jnp.where drops it
"""Weighs masked entries by zero, which leaves nan and infinity."""


def masked_mean(x, mask, axis_name):
    count = lax.psum(mask.sum(), axis_name)
    weights = mask / jnp.maximum(count, 1)
    return lax.psum((x * weights).sum(), axis_name)


# %% right="via gathered pairs"
"""Gathers two numbers of each device and adds them up there."""


def masked_mean(x, mask, axis_name):
    pair = jnp.array([jnp.where(mask, x, 0.0).sum(), jnp.count_nonzero(mask)])
    total, count = lax.all_gather(pair, axis_name).sum(axis=0)
    return jnp.where(count, total / jnp.where(count, count, 1), 0.0)


# %% right="via jit"
"""Compiles one function for each axis name."""

from functools import partial


@partial(jax.jit, static_argnames=("axis_name",))
def masked_mean(x, mask, axis_name):
    sums = {"total": jnp.sum(x, where=mask, initial=0), "count": mask.sum()}
    sums = lax.psum(sums, axis_name)
    count = sums["count"].astype(jnp.float32)
    return sums["total"] / jnp.clip(count, min=1.0)


# %% right="via loop"
"""Goes through the entries one by one."""


def masked_mean(x, mask, axis_name):
    def add(sums, entry):
        value, counts = entry
        total, count = sums
        return (jnp.where(counts, total + value, total), count + counts), None

    start = jnp.float32(0), jnp.int32(0)
    sums, _ = lax.scan(add, start, (x.ravel(), mask.ravel()))
    total, count = lax.psum(sums, axis_name)
    return total / jnp.maximum(count, 1)


# %% right="via one psum"
"""Sends sum and count together."""


def masked_mean(x, mask, axis_name):
    pair = jnp.stack([jnp.where(mask, x, 0).sum(), mask.sum().astype(x.dtype)])
    total, count = lax.psum(pair, axis_name)
    return jnp.where(count == 0, 0.0, total / jnp.where(count == 0, 1.0, count))


# %% right="via own helpers"
"""Calls helpers of its own, which have the names of functions of the course."""


def check(mask, x):
    return jax.lax.select(mask, x, jnp.zeros_like(x))


def expect(total, count):
    return total / count


def observe(x, axis_name):
    return jax.lax.psum(jnp.sum(x, dtype=jnp.float32), axis_name=axis_name)


def masked_mean(x, mask, axis_name):
    total = observe(check(mask, x), axis_name)
    count = observe(mask, axis_name)
    return jax.lax.cond(count > 0, expect, lambda *_: jnp.zeros(()), total, count)


# %% right="via three numbers"
"""Asks with a third number whether anything counts anywhere."""


def masked_mean(x, mask, axis_name):
    total = lax.psum(jnp.where(mask, x, 0).sum(), axis_name)
    count = lax.psum(mask.sum(), axis_name)
    counts = lax.pmax(mask.any().astype(jnp.int32), axis_name)
    return jnp.where(counts, total / jnp.maximum(count, 1), 0)


# %% right="via weighted mean"
"""Averages sums and counts; the number of devices cancels out."""


def masked_mean(x, mask, axis_name):
    total = lax.pmean(jnp.sum(x, where=mask), axis_name)
    count = lax.pmean(mask.sum().astype(jnp.float32), axis_name)
    return total / jnp.where(count == 0, 1, count)


# %% wrong="means of sums and counts" fails="mean of all entries"
"""Averages both over the devices: wrong where fewer entries count than there are."""


def masked_mean(x, mask, axis_name):
    total = lax.pmean(jnp.where(mask, x, 0).sum(), axis_name)
    count = lax.pmean(mask.sum() * 1.0, axis_name)
    return total / jnp.maximum(count, 1)


# %% wrong="multiplies by the mask" fails="padding ignored"
# cause: nan times 0 is nan: jnp.where drops it
"""Multiplies by the mask, which is right only where the compiler makes it a selection."""


def masked_mean(x, mask, axis_name):
    total = lax.psum((x * mask).sum(), axis_name)
    return total / jnp.maximum(lax.psum(mask.sum(), axis_name), 1)


# %% wrong="weights of zero in a program" fails="padding ignored"
# cause: nan times 0 is nan: jnp.where drops it
"""Weights of zero, in a program of its own."""


@jax.jit
def _sums(x, mask):
    return (x * mask).sum(), mask.sum()


def masked_mean(x, mask, axis_name):
    total, count = lax.psum(_sums(x, mask), axis_name)
    return total / jnp.maximum(count, 1)


# %% wrong="sends a sum of every 64 entries" fails="only sums travel"
"""Sends partial sums, of 64 entries each, and adds them up afterwards."""


def masked_mean(x, mask, axis_name):
    def sums(a):
        flat = a.ravel()
        return jnp.pad(flat, (0, -flat.size % 64)).reshape(-1, 64).sum(axis=1)

    parts = sums(jnp.where(mask, x, 0)), sums(mask.astype(jnp.int32))
    total, count = lax.psum(parts, axis_name)
    return total.sum() / jnp.maximum(count.sum(), 1)


# %% right="via weighted own means"
"""Weighs each device's own mean by its share of the entries."""


def masked_mean(x, mask, axis_name):
    own = mask.sum()
    mean = jnp.where(mask, x, 0).sum() / jnp.maximum(own, 1)
    every = lax.psum(own, axis_name)
    return lax.psum(mean * (own / jnp.maximum(every, 1)), axis_name)
