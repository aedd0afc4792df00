# %% [markdown]
# # Lesson 2. Collectives: how devices talk
#
# COLAB_BADGE
#
# In lesson 1 eight replicas drifted apart: no device heard of another. In a
# *collective* all devices take part: each puts a block in, each gets a result. Five
# kinds carry almost all of distributed training.
#
# **After this lesson you can**
#
# - name an axis, and combine or move blocks along it;
# - say what each collective leaves on each device, and how many bytes it moves;
# - read off a program which collectives it runs, and split an optimizer's state (both in
#   "Going further").
#
# **You need** lesson 1. **Time**: about 90 minutes for four exercises, with a pause;
# then "Going further", a second part of 87. Its bonus takes 55.

# %% setup=true

# %% [markdown]
# ## 1. An axis with a name
#
# `jax.pmap(f, axis_name="i")` gives the devices' axis a name. Inside `f` the name says
# *along which axis* to talk. `lax.axis_index("i")` is the number of this device,
# `lax.psum(x, "i")` the sum of `x` over all devices. Below, `spmd(f)` is short for
# `jax.pmap(f, axis_name="i")`.
#
# **Predict, then run.** Each device holds two numbers, `10 d` and `10 d + 1` on device
# `d`. What does device 3 hold after `psum`?

# %%
from jax import lax


def spmd(f):
    return jax.pmap(f, axis_name="i")


num_devices = jax.device_count()  # 8, unless you run on real devices
x = np.float32(10 * np.arange(num_devices)[:, None] + np.arange(2))  # f32[8, 2]
draw_collective('lax.psum(x, "i")', x, spmd(lambda x: lax.psum(x, "i"))(x))
draw_collective('lax.pmean(x, "i")', x, spmd(lambda x: lax.pmean(x, "i"))(x))
draw_collective('lax.pmax(x, "i")', x, spmd(lambda x: lax.pmax(x, "i"))(x))
print("axis_index:", spmd(lambda x: lax.axis_index("i"))(x))

# %% [markdown]
# Every device ends with the same. In the pictures a value has the colour of the device
# that it came from; white values were combined.

# %% [markdown]
# The five kinds, for D devices that put in `n` bytes each:
#
# | `lax.` | XLA's name | a device ends with | each device sends |
# |---|---|---|---|
# | `psum`, `pmean`, `pmax`, `pmin` | all-reduce | the combined block | `2 n (D-1) / D` |
# | `psum_scatter` | reduce-scatter | a piece of the sum | `n (D-1) / D` |
# | `all_gather` | all-gather | all blocks | `n (D-1)` |
# | `all_to_all` | all-to-all | a piece from each | `n (D-1) / D` |
# | `ppermute` | collective-permute | another's block | `n` |
#
# The bytes are a model: of rings in the first three rows, of direct sends in the last
# two.

# %% [markdown]
# `pmap` is the old way to bind an axis name; today a mesh has it, and `shard_map` binds
# it. `pmap` takes the devices' axis off a block, `shard_map` keeps it (here its size is
# 1). The collectives are the same. They take whole **trees** of arrays. Do not study the
# arguments yet: `P("i")` means split along `i`, `P()` one copy for all.

# %%
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((num_devices,), ("i",), axis_types=(AxisType.Auto,))


def average(tree):
    return lax.pmean(tree, "i")


tree = {"w": x, "b": x[:, 0]}
then = spmd(average)(tree)
now = jax.shard_map(average, mesh=mesh, in_specs=P("i"), out_specs=P())
now = jax.jit(now)(tree)
print("pmap, a mean on each device:", jax.tree.map(np.shape, then))
print("shard_map, one copy; blocks keep their axis:", jax.tree.map(np.shape, now))
print("same means:", all(np.allclose(then[key], now[key]) for key in tree))
try:
    spmd(lambda x: lax.psum(x, "j"))(x)
except NameError:
    print("an axis that nobody has bound: NameError")

# %% [markdown]
# ## 2. Combining: sums, means, maxima
#
# **Common mistake: the mean of means.** Devices often hold different amounts of valid
# data, say in a short last batch. Then the mean of their means is, in general, *not* the
# mean of the data.
#
# **Predict, then run.** Device `d` has `d + 1` valid numbers, each of them equal to
# `d`. Which of the two means is larger?

# %%
numbers = np.arange(num_devices)
valid = numbers <= numbers[:, None]  # bool[8, 8]: d + 1 on device d
data = np.float32(numbers[:, None] * valid)


def mean_of_means(x, valid):
    return lax.pmean(x.sum() / valid.sum(), "i")


print(f"mean of means: {float(spmd(mean_of_means)(data, valid)[0]):.2f}")
print(f"mean of data:  {float(data[valid].mean()):.2f}")

# %% [markdown]
# The last device holds most numbers and must weigh more than device 0 with its one. So
# add up values and counts over the devices first, then divide once.
#
# From here on you write what **one** device does. Your function gets this device's
# block and an axis name; the check maps it with `pmap`, which binds the name. In all
# exercises with an axis:
#
# - [any number of devices] There may be any number D of devices: 1, 3 or 6 as well as 8.
#   D is `lax.axis_size(axis_name)`, a plain number, not `jax.device_count()`. One device
#   alone need not send anything.
# - [any axis name] The axis may have any name of ASCII letters.

# %% [markdown]
# ### Exercise 2.1: masked_mean
#
# Each device has `x` and a `mask` of the same shape, `True` where an entry counts.
# [the mean of all devices] `masked_mean(x, mask, axis_name)` returns the mean over the
# counted entries of **all** devices, a scalar, the same on each.
#
# - [0 where nothing counts] Where nothing counts on any device: 0.
# - [masked entries do not matter] Masked entries may hold anything, `nan` and `inf` too.
#   (A counted `nan` makes the mean `nan`. On a CPU the check may not see `x * mask`; use
#   `where`.)
# - [two numbers are sent] Each device puts in two numbers, not its data.


# %% exercise="masked_mean" minutes=10 difficulty=1
def masked_mean(x, mask, axis_name):
    """Averages the unmasked entries of all devices.

    Args:
        x: f32[...], this device's entries.
        mask: bool of the same shape; True: the entry counts.
        axis_name: the name of the devices' axis.

    Returns:
        f32[], the same on every device; 0 where no entry counts.
    """
    ### BEGIN SOLUTION
    total = lax.psum(jnp.sum(jnp.where(mask, x, 0)), axis_name)
    count = lax.psum(jnp.sum(mask), axis_name)
    return total / jnp.maximum(count, 1)
    ### END SOLUTION


# %% [markdown] hints="masked_mean"
# - You need two sums over all devices: of the entries that count, and of how many.
# - `jnp.where(mask, x, 0)` drops what does not count, whatever it is.
# - Divide by `jnp.maximum(count, 1)`: 0 / 1 is the 0 that is asked for.


# %% helpers="masked_mean"
from coursekit.notebook import expect as check_that
from coursekit.notebook import expect_arrays as check_that_it_traces


def check_puts_in(seen, most, mistakes, least=0):  # {cause: numbers put in at once}
    check_that_it_traces(seen)
    sizes = [int(np.prod(one.shape)) for one in seen.collectives]
    times = [one.times or np.inf for one in seen.collectives]
    numbers = sum(size * often for size, often in zip(sizes, times, strict=True))
    headline = f"Each device puts {numbers} numbers into collectives."
    rows = {"seen": "; ".join(map(str, seen.collectives))}
    rows["expected"] = f"{most} numbers" if least else f"at most {most} numbers"
    causes = {text: lambda _, n=n: n in sizes for text, n in mistakes.items()}
    check_that(seen, least <= numbers <= most, headline, causes=causes, **rows)


# %% check="masked_mean" points=2
num_devices = jax.device_count()  # 8, unless yours are real
x = np.float32(np.random.default_rng(0).normal(size=(num_devices, 3, 2)) + 1)
mask = np.arange(x.size).reshape(x.shape) % 7 < np.arange(len(x))[:, None, None]
mean = x[mask].mean(dtype=np.float64)  # device 0 has nothing that counts
own = (x * mask).sum((1, 2)) / np.maximum(mask.sum((1, 2)), 1)
causes = {
    "this is a mean of means: on device 0 nothing counts, 0 / 0": own * np.nan,
    "this is the mean of the devices' means": 0 * own + own.mean(),
    "each device kept its own mean: nothing was sent": own,
    "this is the mean of all entries": 0 * own + x.mean(),
}
statement("the mean of all devices")
seen = observe(masked_mean, x, mask, "i", axis="i", traced=True)
expect_close(seen, 0 * own + mean, mistakes=causes)
statement("two numbers are sent")
check_puts_in(seen, 2, {"the data was sent, not its sum and count": 6})
statement("masked entries do not matter")
dirty = np.where(mask, x, np.float32(np.nan))
seen = observe(masked_mean, dirty, mask, "i", axis="i")
causes = {"nan times 0 is nan: jnp.where drops it": own * np.nan}
expect_close(seen, 0 * own + mean, mistakes=causes)
statement("0 where nothing counts")
seen = observe(masked_mean, x, mask & False, "i", axis="i")
causes = {"0 / 0: nothing counts on any device": own * np.nan}
expect_close(seen, 0 * own, mistakes=causes)


### BEGIN HIDDEN TESTS
def cases(rng):
    devices, dirt = "any number of devices", "masked entries do not matter"
    for num_devices, shape, share, what in (
        (1, (5,), 0.5, devices),
        (2, (3, 1), 0, dirt),
        (3, (), 0.9, devices),
        (4, (7,), 0, "0 where nothing counts"),
        (8, (11, 2), 0.9, "any axis name"),
        (2, (35_001,), 2, "the mean of all devices"),  # more than 16 bits count
    ):
        x = np.float32(rng.normal(size=(num_devices, *shape)) * 30 - 20)
        mask = rng.random(x.shape) < share
        mask.reshape(num_devices, -1)[-1, 0] |= num_devices == 2  # one of all counts
        if num_devices in (2, 4):
            x[~mask] = rng.choice([np.nan, np.inf, -np.inf, 1e30], x.shape)[~mask]
        axis = "members" if what == "any axis name" else "i"
        yield Case(x, mask, axis, axis=axis, statements=what)
    for number in (np.nan, np.inf):
        counted = np.float32([[1], [number]])
        what = "the mean of all devices", dirt
        yield Case(counted, counted != 1, "i", axis="i", statements=what)


expect_like_solution(
    masked_mean,
    cases,
    value=("the mean of all devices", "any number of devices", "any axis name"),
    put_in="two numbers are sent",
    free={
        "error": "it raises none",
        "layout": "of a row per device",
        "collectives": "a sum or a gathering",
        "arrays compiles": "nothing is said",
        "arguments": "traced",
    },
)
x, mask = np.tile(x[:6], (1, 2, 5)), np.tile(mask[1:7], (1, 2, 5))
mean = x[mask].mean(dtype=np.float64)
x[~mask] = -np.inf
statement("any number of devices", "masked entries do not matter")
seen = observe(masked_mean, x, mask, "i", axis="i", traced=True)
expect_close(seen, np.full(6, mean))
statement("two numbers are sent")
check_puts_in(seen, 2, {})
### END HIDDEN TESTS

# %% [markdown]
# **Common mistake: weights of 0 for a mask.** `nan * 0` is `nan`. With a *bool* mask the
# CPU's compiler makes a selection out of `x * mask`. As soon as the mask arrives as
# numbers, one `nan` in the padding spoils the mean.

# %%
dirty, mask = np.float32([1, np.nan]), np.array([True, False])
weighted_sum = jax.jit(lambda x, weights: (x * weights).sum())
print("bool mask:      ", float(weighted_sum(dirty, mask)))
print("weights 1 and 0:", float(weighted_sum(dirty, np.float32(mask))))

# %% [markdown]
# ### Exercise 2.2: sync_batch_norm
#
# BatchNorm normalises each feature by the batch's mean and variance. With the batch
# split over devices (equally many rows on each), each would use its own statistics.
#
# `sync_batch_norm(x, axis_name, eps)` gets `x: (B, F)` and returns `(y, mean, var)`:
#
# - [statistics of all devices] `mean, var: (F,)` over all rows of **all** devices;
#   `var` is the mean squared distance from `mean`;
# - [normalised rows] `y = (x - mean) / sqrt(var + eps)`, this device's rows.
#
# And:
#
# - [accurate far from 0] A feature's mean may be large beside its spread: 10,000 ± 1,
#   say, or -20,000 ± 3. `var` is still right, to 2 percent.
# - [two numbers per feature are sent] For each feature a device puts in two numbers at
#   most, in all: statistics, not rows.


# %% exercise="sync_batch_norm" minutes=13 difficulty=2
def sync_batch_norm(x, axis_name, eps):
    """Normalises each feature over the rows of all devices.

    Args:
        x: f32[B, F], this device's rows.
        axis_name: the name of the devices' axis.
        eps: added to the variance.

    Returns:
        (y: f32[B, F], mean: f32[F], var: f32[F]); mean and var agree on all devices.
    """
    ### BEGIN SOLUTION
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean(((x - mean) ** 2).mean(axis=0), axis_name)
    return (x - mean) / jnp.sqrt(var + eps), mean, var
    ### END SOLUTION


# %% [markdown] hints="sync_batch_norm"
# - All devices hold equally many rows, so here a mean of means is right.
# - Two rounds: first everybody's mean, then everybody's mean squared
#   distance from the overall mean.
# - `mean(x**2) - mean(x)**2` subtracts two numbers near 10^8 in 32 bits: little is left.


# %% helpers="sync_batch_norm"
def check_batch_norm(blocks, eps):  # (D, B, F): all rows at once, in 64 bits
    wide = np.float64(blocks)
    mean, var = wide.mean((0, 1)), wide.var((0, 1))
    y = (wide - mean) / np.sqrt(var + eps)
    return (y, *(np.stack([a] * len(blocks)) for a in (mean, var)))


# %% check="sync_batch_norm" points=2
num_devices = jax.device_count()
rows = np.float32(np.random.default_rng(7).normal(size=(num_devices, 16, 3)))
x = rows + np.float32(np.arange(len(rows)))[:, None, None]  # means differ
y, mean, var = right = check_batch_norm(x, 0.5)
own = x.mean(1), x.var(1)
within = np.broadcast_to(own[1].mean(0), var.shape)
alone = (x - own[0][:, None]) / np.sqrt(own[1][:, None] + 0.5)
missing = (x - mean[:, None]) / np.sqrt(within[:, None] + 0.5)
outside = (x - mean[:, None]) / (np.sqrt(var)[:, None] + 0.5)
causes = {"each device used its own rows only": (alone, *own)}
causes["variances were averaged, but the means differ too"] = missing, mean, within
causes["eps was added outside of the root"] = outside, mean, var
statement("statistics of all devices", "normalised rows")
seen = observe(sync_batch_norm, x, "i", 0.5, axis="i", traced=True)
expect_close(seen, right, rtol=1e-4, atol=1e-4, mistakes=causes)
statement("two numbers per feature are sent")
check_puts_in(seen, 2 * 3, {"the rows were sent": 16 * 3})
statement("accurate far from 0")
_, mean, var = far = check_batch_norm(rows + 10_000, 0.5)
seen = observe(sync_batch_norm, rows + 10_000, "i", 0.5, axis="i")
cause = "mean(x**2) - mean(x)**2 loses all digits here: take distances from the mean"
causes = {
    cause: lambda s: abs(s.value[1] - mean).max() < 0.1 < abs(s.value[2] - var).max()
}
expect_close(seen, far, rtol=2e-2, atol=2e-2, causes=causes)


### BEGIN HIDDEN TESTS
def cases(rng):
    devices = "any number of devices"
    for num_devices, (rows, features), eps, offset, what in (
        (1, (5, 2), 0.5, 0, devices),
        (2, (1, 3), 0.5, 3, devices),
        (3, (2, 1), 0.5, 1, devices),
        (4, (3, 4), 1e-3, 0, "normalised rows"),
        (8, (2, 5), 0.1, 1, "any axis name"),
    ):
        x = rng.normal(size=(num_devices, rows, features))
        x = x * rng.choice([0.3, 1, 5], features) + offset
        x += rng.normal(size=(num_devices, 1, 1))
        if num_devices == 4:
            x[..., 1] = 3  # no spread: eps alone
        axis = "batch" if what == "any axis name" else "i"
        yield Case(np.float32(x), axis, eps, axis=axis, statements=what)


expect_like_solution(
    sync_batch_norm,
    cases,
    value=(
        "statistics of all devices",
        "normalised rows",
        "any number of devices",
        "any axis name",
    ),
    put_in="two numbers per feature are sent",
    free={
        "error": "it raises none",
        "layout": "of a row per device",
        "collectives": "sums or a gathering",
        "arrays compiles": "nothing is said",
        "arguments": "traced",
    },
)
far = np.float32(3 * rows[:6, :7, :2] + [10_499.5, -20_000])
statement("any number of devices", "accurate far from 0")
seen = observe(sync_batch_norm, far, "i", 2, axis="i", traced=True)
expect_close(seen, check_batch_norm(far, 2), rtol=2e-2, atol=2e-2)
statement("two numbers per feature are sent")
check_puts_in(seen, 2 * 2, {})
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 2.3: sharded_log_softmax
#
# A language model has so many classes that its logits are split along the *class* axis:
# a device holds `(B, C / D)` of the `(B, C)` logits.
#
# [log-softmax over all classes] `sharded_log_softmax(logits, axis_name)` returns this
# device's `(B, C / D)` part of the row-wise log-softmax over all `C` classes.
#
# - [stable at large logits] Logits are finite. Those of ±10,000 give finite results,
#   right to two decimals.
# - [two numbers per row are sent] For each row a device puts in two numbers at most, in
#   all: say a maximum and a sum.


# %% exercise="sharded_log_softmax" minutes=12 difficulty=2
def sharded_log_softmax(logits, axis_name):
    """Computes the log-softmax over a class axis that is split over the devices.

    Args:
        logits: f32[B, C/D], this device's classes, all finite.
        axis_name: the name of the devices' axis.

    Returns:
        f32[B, C/D], this device's part of the log-softmax over all C classes.
    """
    ### BEGIN SOLUTION
    largest = lax.pmax(logits.max(axis=-1, keepdims=True), axis_name)
    shifted = logits - largest
    total = lax.psum(jnp.exp(shifted).sum(axis=-1, keepdims=True), axis_name)
    return shifted - jnp.log(total)
    ### END SOLUTION


# %% [markdown] hints="sharded_log_softmax"
# - On one device: subtract the row's maximum, then the logarithm of the sum of the
#   exponentials.
# - Both the maximum and the sum go over all devices: `lax.pmax` and `lax.psum`.
# - `keepdims=True` lets the row's numbers broadcast against `(B, C / D)`.


# %% helpers="sharded_log_softmax"
def check_log_softmax(blocks):  # (D, B, C/D): all classes at once, in 64 bits
    whole = np.moveaxis(np.float64(blocks), 0, 1).reshape(blocks.shape[1], -1)
    top = whole.max(1, keepdims=True)
    return blocks - top - np.log(np.exp(whole - top).sum(1, keepdims=True))


# %% check="sharded_log_softmax" points=2
num_devices = jax.device_count()
logits = np.float32(np.random.default_rng(5).normal(size=(num_devices, 4, 16)) * 3)
shifted = logits - logits.max(-1, keepdims=True)
sums = np.exp(shifted).sum(-1, keepdims=True)
whole = check_log_softmax(logits)
causes = {
    "each device normalised over its own classes only": shifted - np.log(sums),
    "each device subtracted its own maximum: share it": shifted - np.log(sums.sum(0)),
    "the sums were averaged, not added up": whole + np.log(num_devices),
    "this is the softmax, without a logarithm": np.exp(whole),
}
statement("log-softmax over all classes")
seen = observe(sharded_log_softmax, logits, "i", axis="i", traced=True)
expect_close(seen, whole, rtol=1e-4, atol=1e-4, mistakes=causes)
statement("two numbers per row are sent")
check_puts_in(seen, 2 * 4, {"the logits were sent": 4 * 16})
statement("stable at large logits")
steep = np.where(np.arange(16) == 3, 1e4, -1e4) - [[0], [2e4], [7], [0]]
steep = np.float32(logits + steep)  # another maximum in each row
causes = {
    "exp overflows: subtract each row's maximum": lambda s: (s.value < -1e9).any(),
    "log(0): a row needs its own maximum": lambda s: (s.value > 1e9).any(),
}
seen = observe(sharded_log_softmax, steep, "i", axis="i")
expect_close(seen, check_log_softmax(steep), rtol=1e-4, atol=5e-3, causes=causes)


### BEGIN HIDDEN TESTS
def cases(rng):
    devices = "any number of devices"
    for num_devices, shape, offsets, what in (
        (1, (3, 5), [0], devices),
        (2, (4, 1), [0, 50], devices),
        (3, (1, 2), [0], devices),
        (4, (3, 3), [-1e4, 0, 1e4], "stable at large logits"),
        (8, (5, 7), [-3, 3], "any axis name"),
    ):
        logits = rng.normal(size=(num_devices, *shape)) * 3
        logits += rng.choice(offsets, (num_devices, shape[0], 1))
        axis = "model" if what == "any axis name" else "i"
        yield Case(np.float32(logits), axis, axis=axis, statements=what)


expect_like_solution(
    sharded_log_softmax,
    cases,
    value=("log-softmax over all classes", "any number of devices", "any axis name"),
    put_in="two numbers per row are sent",
    free={
        "error": "it raises none",
        "layout": "of a row per device",
        "collectives": "sums or a gathering",
        "arrays compiles": "nothing is said",
        "arguments": "traced",
    },
)
low = logits[:6, :1, :5] - np.float32(1e4)
statement("any number of devices", "stable at large logits")
seen = observe(sharded_log_softmax, low, "i", axis="i", traced=True)
expect_close(seen, check_log_softmax(low), rtol=1e-4, atol=5e-3)
statement("two numbers per row are sent")
check_puts_in(seen, 2, {})
### END HIDDEN TESTS

# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above again: what follows needs their names.

# %% [markdown]
# ## 3. Moving: gather, scatter, permute, exchange
#
# The other collectives move blocks. `lax.all_gather` gives every device all blocks.
# `lax.psum_scatter` (**reduce-scatter**) sums like `psum`, but device `d` keeps only
# the `d`-th piece of the sum. With `tiled=True` blocks are joined, and cut, along their
# first axis. Without it, gathering adds a first axis, scattering removes one; its size
# is D.
#
# **Predict, then run.** Below, `all_gather` starts with one number on each device,
# `psum_scatter` with eight. With how many does a device end?

# %%
wide = np.float32(10 * numbers[:, None] + numbers)  # f32[8, 8]
gathered = spmd(lambda x: lax.all_gather(x, "i", tiled=True))(wide[:, :1])
draw_collective('lax.all_gather(x, "i", tiled=True)', wide[:, :1], gathered)
scattered = spmd(lambda x: lax.psum_scatter(x, "i"))(wide)
draw_collective('lax.psum_scatter(x, "i")', wide, scattered)

# %% [markdown]
# **An all-reduce is a reduce-scatter and an all-gather.** First each device gets a
# piece of the sum, then all pieces go to everybody. Large models live on this: between
# the two halves a device needs only its piece, and the optimizer's state for that piece
# alone (exercise 2.5).


# %%
def scatter_then_gather(x):
    piece = lax.psum_scatter(x, "i", tiled=True)
    return lax.all_gather(piece, "i", tiled=True)


same = spmd(scatter_then_gather)(wide) == spmd(lambda x: lax.psum(x, "i"))(wide)
print("same as psum:", bool(same.all()))

# %% [markdown]
# `lax.ppermute` sends a block to at most one other device, and each gets at most one. A
# list of (from, to) pairs says which: plain numbers, the same whole list on every
# device. A device to which nobody sends gets zeros.
#
# `lax.all_to_all` sends a different piece to every device. Its two numbers say along
# which axis a block is cut, and along which the arriving pieces are joined: below, a
# block of 1 x 4 is cut into columns, and these are joined as rows. (Four devices: the
# first ones.)

# %%
pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
moved = spmd(lambda x: lax.ppermute(x, "i", pairs))(wide[:, :2])
draw_collective('lax.ppermute(x, "i", pairs)', wide[:, :2], moved)
few = min(4, num_devices)
rows = wide[:few, None, :few]  # f32[4, 1, 4]: a block is a row of four columns
exchanged = spmd(lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True))(rows)
draw_collective('lax.all_to_all(x, "i", 1, 0, tiled=True)', rows, exchanged)

# %% [markdown]
# ### Exercise 2.4: reshard_rows_to_columns
#
# A matrix `(R, C)` is split by rows: each device holds `(R / D, C)`. The next layer
# wants it split by columns, `(R, C / D)`, device 0 with the first columns.
#
# [split by columns] `reshard_rows_to_columns(x, axis_name)` does it, for any dtype; the
# rows keep their order.
#
# - [one all_to_all] One `all_to_all` of the block's bytes is all that is sent. Gathering
#   everything first would need D times the memory.
# - [columns that do not divide] Where `C` is not divisible by D: `ValueError`, and its
#   text names `C` and D. (`all_to_all`'s own error will do; `reshape` raises a
#   `TypeError`.)


# %% exercise="reshard_rows_to_columns" minutes=8 difficulty=1
def reshard_rows_to_columns(x, axis_name):
    """Turns a split by rows into a split by columns.

    Args:
        x: (R/D, C), this device's rows.
        axis_name: the name of the devices' axis, which has D devices.

    Returns:
        (R, C/D), this device's columns, of x's dtype.

    Raises:
        ValueError: C is not divisible by D; the text names both.
    """
    ### BEGIN SOLUTION
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, not divisible by {num_devices}")
    return lax.all_to_all(x, axis_name, split_axis=1, concat_axis=0, tiled=True)
    ### END SOLUTION


# %% [markdown] hints="reshard_rows_to_columns"
# - `all_to_all` cuts `split_axis` into D pieces, sends one to each device, and joins
#   what arrives along `concat_axis`.
# - You cut columns and join rows. `tiled=True` keeps the number of axes.

# %% check="reshard_rows_to_columns" points=2
num_devices = jax.device_count()
x = np.float32(np.arange(6 * num_devices**2)).reshape(num_devices, 2, -1)
whole = x.reshape(-1, 3 * num_devices)
mixed = np.moveaxis(x, 0, 1).reshape(whole.shape)
split = np.stack(np.split(whole, num_devices, axis=1))
causes = {
    "the rows arrived in another order": np.stack(np.split(mixed, num_devices, axis=1)),
    "these are the device's own rows in another shape": x.reshape(split.shape),
}
statement("split by columns")
seen = observe(reshard_rows_to_columns, x, "i", axis="i", traced=True)
expect_close(seen, split, mistakes=causes)
statement("one all_to_all")
expect_collectives(seen, {"all-to-all": 1})
if num_devices > 1:  # one divides all
    statement("columns that do not divide")
    columns = 2 * num_devices + 1
    seen = observe(reshard_rows_to_columns, x[..., :columns], "i", axis="i")
    expect_error(seen, "ValueError", mentions=[columns, num_devices])


### BEGIN HIDDEN TESTS
def cases(rng):
    split, devices = "split by columns", "any number of devices"
    for num_devices, shape, dtype, what in (
        (1, (3, 1), float, devices),
        (2, (2, 4), int, split),  # as many rows as columns
        (4, (4, 4), complex, split),
        (8, (1, 8), bool, "any axis name"),
    ):
        x = rng.random((num_devices, *shape)) * 2e9  # whole numbers beyond float32
        kinds = {float: np.float32(x), int: np.int32(x), bool: x > 0}
        x = kinds.get(dtype, np.complex64(x + 1j * x[..., ::-1]))
        axis = "model" if what == "any axis name" else "i"
        yield Case(x, axis, axis=axis, statements=what)
    for num_devices, num_columns in ((2, 5), (3, 2), (4, 6)):
        x = np.zeros((num_devices, 7, num_columns), np.float32)
        yield Case(x, "i", axis="i", mentions=(num_devices, num_columns))


expect_like_solution(
    reshard_rows_to_columns,
    cases,
    value=("split by columns", "any number of devices", "any axis name"),
    error="columns that do not divide",
    free={
        "layout": "of a row per device",
        "collectives sent": "of several devices alone: below",
        "arrays compiles": "nothing is said",
        "arguments": "traced",
    },
)


def several_devices(rng):
    devices, dtypes = "any number of devices", "split by columns"
    for shape, dtype, what in (
        ((6, 13, 12), np.float32, devices),
        ((3, 1, 3), np.int32, devices),
        ((2, 3, 2), bool, dtypes),  # each travels as it is, not as a wider one
        ((2, 3, 2), np.int8, dtypes),
        ((2, 3, 2), jnp.bfloat16, dtypes),
    ):
        x = np.asarray(9 * rng.normal(size=shape), np.int8)
        yield Case(x.astype(dtype), "i", axis="i", statements=what)


expect_like_solution(
    reshard_rows_to_columns,
    several_devices,
    value="any number of devices",
    collectives="one all_to_all",
    sent="one all_to_all",
    free={
        "error": "above",
        "layout": "of a row per device",
        "arrays compiles": "nothing is said",
        "arguments": "traced",
    },
)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Gradients
#
# Sums and moves can be differentiated, and the derivative is a collective again. But
# which gradient do you get?
#
# **Predict, then run.** Device `d` holds `d`, its loss is `d ** 2`. Differentiate the
# *averaged* loss on each device. Do all devices get the same gradient?

# %%
weights = np.float32(numbers)
of_mean = spmd(jax.grad(lambda w: lax.pmean(w**2, "i")))(weights)
mean_of = spmd(lambda w: lax.pmean(jax.grad(lambda w: w**2)(w), "i"))(weights)
print("grad of pmean(loss):", np.asarray(of_mean))
print("pmean of grad(loss):", np.asarray(mean_of))

# %% [markdown]
# Under `pmap`, `jax.grad` differentiates on each device **the sum of what all devices
# return**. Here all D return the same average, and D averages are the sum of the losses.
# So the first line is each device's *own* gradient: averaging the loss does not average
# gradients. The second line is what training needs, and what lesson 3 does. (`shard_map`,
# by default, gives another answer: a trap of lesson 3.)

# %% [markdown]
# ## Recap
#
# - An axis name says along which axis devices talk; `shard_map` or `pmap` binds it.
# - `psum`, `pmean`, `pmax`: all-reduce. `psum_scatter`, `all_gather`: its two halves.
#   `ppermute`, `all_to_all`: blocks on the move.
# - Sum numerators and denominators; the mean of means is another number.
# - An all-reduce is a reduce-scatter and an all-gather: what happens in between, a
#   device does for its part alone.

# %% [markdown]
# ## Three questions
#
# **1. `x` is `f32[1024]` on each of 8 devices. How many numbers does a device hold
# after `lax.psum_scatter(x, "i", tiled=True)`?**
#
# <details><summary>1024</summary>
#
# That is `psum`: everybody keeps the whole sum.
#
# </details>
# <details><summary>128</summary>
#
# Right. The sum has 1024 entries; each device keeps an eighth.
#
# </details>
# <details><summary>8192</summary>
#
# That is `all_gather`: the blocks side by side.
#
# </details>

# %% [markdown]
# **2. Equal replicas, each with its own batch: the loss is averaged with `pmean` before
# `jax.grad`, under `pmap`. What happens to the replicas?**
#
# <details><summary>They stay equal: the loss is the same everywhere</summary>
#
# Equal losses, but each device differentiates by its own weights.
#
# </details>
# <details><summary>They drift apart</summary>
#
# Right. Each gets its own gradient (section 4). Average the gradients.
#
# </details>
# <details><summary>JAX refuses</summary>
#
# It is a valid program, which is why the mistake survives.
#
# </details>

# %% [markdown]
# **3. In place of an all-reduce of the gradients, a step runs `psum_scatter`, updates,
# and runs `all_gather`. What does each device have less of?**
#
# <details><summary>bytes to send</summary>
#
# As many: these are the two halves of an all-reduce.
#
# </details>
# <details><summary>optimizer state</summary>
#
# Right: a slice, one of D.
#
# </details>
# <details><summary>weights after the step</summary>
#
# They are gathered, whole on each device. Lesson 4 splits them, too.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [JAX's guide to shard_map](https://docs.jax.dev/en/latest/notebooks/shard_map.html):
#   these collectives by today's interface, with their pictures.
# - NVIDIA's NCCL and every profiler use the words of this lesson: AllReduce, AllGather,
#   ReduceScatter.
#
# **Next**: [lesson 3](03_pmap_training.ipynb), training with `pmap`.

# %% [markdown]
# ## Going further
#
# The core of the lesson ends here. For another sitting: gradients through `pmax`, which
# collectives a program runs, and four exercises, on a split optimizer state, the ring
# behind an all-reduce, what a collective costs, and an ensemble. Their points count like
# any other's. A bonus on top: attention in a ring, a mixture of experts. First run all
# cells above again.

# %% [markdown]
# ## Then and now
#
# | then | now |
# |---|---|
# | `pmap(f, axis_name="i")` | a mesh's axis names, `shard_map` |
# | `soft_pmap`, `xmap` (gone) | `shard_map`, or `vmap` inside of it |
# | `axis_index_groups` | a mesh of two axes, a collective along one |
# | `lax.psum(1, "i")` | `lax.axis_size("i")` |
# | `pjit` (deprecated) | `jax.jit` with shardings (lesson 4) |
# | `jax.experimental.shard_map`, `check_rep` | `jax.shard_map`, `check_vma` |

# %% [markdown]
# ## Gradients and `pmax`
#
# `pmax` and `pmin` have no derivative: put `lax.stop_gradient` around what goes in
# (around the result is too late). A softmax allows that: the maximum that it takes off
# changes nothing. Below only device 1 returns the loss, the others return 0. So the sum
# that is differentiated (section 4) is the loss, once.


# %%
def cross_entropy(logit):  # a class on each device, as in 2.3; class 1 is the true one
    top = lax.pmax(lax.stop_gradient(logit), "i")
    log_sum = top + jnp.log(lax.psum(jnp.exp(logit - top), "i"))
    return jnp.where(lax.axis_index("i") == 1, log_sum - logit, 0)


logits = np.float32(numbers)
grads = spmd(jax.grad(cross_entropy))(logits)
expected = jax.nn.softmax(logits) - (numbers == 1)
print("the gradients are right:", np.allclose(grads, expected, atol=1e-6))
try:
    spmd(jax.grad(lambda w: lax.pmax(w, "i")))(logits)
except NotImplementedError:
    print("pmax without stop_gradient: NotImplementedError")

# %% [markdown]
# ## 5. Which collectives does a program run?
#
# `collectives(f, x)` traces `f` and lists what it asks for, by XLA's names: what one
# device puts in, how often, whether in a loop. The checks of this lesson use the same
# list.


# %%
def many_steps(x):
    def step(total, _):
        return lax.pmean(total, "i") + lax.pmax(x, "i"), None

    return lax.scan(step, x, None, length=5)[0]


for one in collectives(spmd(many_steps), wide):
    print(one)

# %% [markdown]
# Now count **bytes**. Four ways to sum `n` bytes over D devices; how much does each
# device send?


# %%
def gather_and_sum(x):
    return lax.all_gather(x, "i").sum(axis=0)


def pass_around(x):
    total = x
    for _ in range(num_devices - 1):
        x = lax.ppermute(x, "i", pairs)
        total = total + x
    return total


ways = {"psum": lambda x: lax.psum(x, "i"), "scatter, gather": scatter_then_gather}
ways |= {"gather and sum": gather_and_sum, "pass around": pass_around}
block = np.ones((num_devices, 128 * num_devices), np.float32)  # n = 4096 bytes on 8
for name, way in ways.items():  # each kind counts as the table of section 1 says
    sent = sum(one.bytes_moved for one in collectives(spmd(way), block))
    print(f"{name:<16}{sent:>7,.0f} bytes = {sent / block[0].nbytes:.2f} n")

# %% [markdown]
# All four give the same sums, up to rounding. By the ring's model the first two send
# `2 n (D - 1) / D` bytes, less than `2 n` however many devices there are. The others
# send `n (D - 1)`: with 1,000 devices 500 times as much.

# %% [markdown]
# ## 6. Groups, and the compiler's collectives
#
# `axis_index_groups` lets parts of an axis talk among themselves, here two halves.
# (`shard_map` supports it in part; today's way is a mesh of two named axes, lesson 4.)

# %%
half = num_devices // 2
groups = [[*range(half)], [*range(half, num_devices)]]
second = wide[:, 1:2]
by_group = spmd(lambda x: lax.psum(x, "i", axis_index_groups=groups))(second)
draw_collective("lax.psum, axis_index_groups", second, by_group, groups=groups)

# %% [markdown]
# The trace lists what you asked for; the compiler may do something else. Under plain
# `jax.jit` (lesson 4) it puts the collectives in, and only the compiled program shows
# them.
#
# **Predict, then run.** Read only `by_hand` and `automatic`; the rest is lesson 4. Both
# sum the rows of a split matrix and leave the result split. On a simulated CPU, do both
# compile to a reduce-scatter?

# %%
from jax.sharding import NamedSharding

split = NamedSharding(mesh, P("i"))
rows = np.ones((2 * num_devices, 8 * num_devices), np.float32)
rows = jax.device_put(rows, split)


def by_hand(x):
    return lax.psum_scatter(x.sum(axis=0), "i", tiled=True)


mapped = jax.shard_map(by_hand, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
automatic = jax.jit(lambda x: x.sum(axis=0), out_shardings=split)
for name, program in (("by hand", jax.jit(mapped)), ("by the compiler", automatic)):
    text = program.lower(rows).compile().as_text()
    kinds = [kind for kind in ("all-reduce", "reduce-scatter") if f" {kind}(" in text]
    traced = [one.kind for one in collectives(program, rows)]
    print(f"{name}: traced {traced}, compiled {kinds}")

# %% [markdown]
# Of the automatic program the CPU's compiler made an all-reduce, of which each device
# keeps its part. Look for your own collectives in the trace, for the compiler's in the
# compiled program.

# %% [markdown]
# ### Exercise 2.5: sharded_update
#
# A device has all `weights: (n, ...)`, its own `grads` like them, and a slice of SGD's
# momentum, `velocity: (n / D, ...)`, device 0 the first rows.
# `sharded_update(weights, velocity, grads, axis_name, lr, beta)` returns the new
# `(weights, velocity)`:
#
# - [the new slice] New velocity: `beta * velocity + g`, where `g` is this slice of the
#   **mean** gradient.
# - [the new weights] New weights: `weights - lr * v`, whole, the same bits everywhere;
#   `v` joins all new velocities. (Gather `v`, or the weights' new slices.)
# - [one scatter, one gather] One `psum_scatter` and one `all_gather` are sent, no more:
#   the bytes of one all-reduce.
# - [rows that do not divide] `n` not divisible by D: `ValueError`, naming both.
#   (`psum_scatter`'s own does, if it comes first; `reshape` raises a `TypeError`.)


# %% exercise="sharded_update" minutes=16 difficulty=2
def sharded_update(weights, velocity, grads, axis_name, lr, beta):
    """Takes a step of SGD with momentum; each device updates its slice.

    Args:
        weights: f32[n, ...], the same on every device.
        velocity: f32[n/D, ...], this device's slice of the momentum.
        grads: f32[n, ...], this device's gradient.
        axis_name: the name of the devices' axis, which has D devices.
        lr: learning rate, a float.
        beta: momentum's decay, a float.

    Returns:
        (weights: f32[n, ...], velocity: f32[n/D, ...]), the new ones.

    Raises:
        ValueError: n is not divisible by D; the text names both.
    """
    ### BEGIN SOLUTION
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if len(weights) % num_devices:
        raise ValueError(f"{len(weights)} rows do not divide by {num_devices} devices")
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[me]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity
    ### END SOLUTION


# %% [markdown] hints="sharded_update"
# - `lax.psum_scatter(grads, axis_name, tiled=True)` is this device's slice of the
#   gradients' sum. Then all happens on slices, and the gathering comes last.
# - Your slice of the weights is `weights.reshape(D, len(weights) // D,
#   *weights.shape[1:])[me]`, where `me = lax.axis_index(axis_name)`. It is traced, and
#   may still index an array.
# - Gather what is new and nobody else has: this slice of the new weights.


# %% helpers="sharded_update"
def check_update(weights, velocity, grads, lr, beta):  # of all devices, in 64 bits
    mean = np.float64(grads).mean(0).reshape(velocity.shape)
    new = beta * np.float64(velocity) + mean
    whole = weights[0] - lr * new.reshape(weights[0].shape)
    return np.stack([whole] * len(weights)), new


def check_first(rows, num_devices):  # the first slice, wherever another one belongs
    return np.tile(rows[:, : rows.shape[1] // num_devices], (1, num_devices, 1))


def check_own(grads):  # of each device's gradient the slice of that device
    size = grads.shape[1] // len(grads)
    slices = [grad[d * size : (d + 1) * size] for d, grad in enumerate(grads)]
    return np.concatenate(slices)[None]


def check_update_mistakes(weights, velocity, grads, lr, beta):
    num_devices, new = len(weights), check_update(weights, velocity, grads, lr, beta)[1]
    first = [check_first(one, num_devices) for one in (weights, grads)]
    old = weights - lr * velocity.reshape(weights[0].shape)
    of = {
        "the gradients were summed, not averaged": (weights, num_devices * grads),
        "each device used its own gradient alone": (weights, check_own(grads)),
        "every device updated the first slice": first,
    }
    found = {
        cause: check_update(one, velocity, other, lr, beta)
        for cause, (one, other) in of.items()
    }
    return found | {"the weights took their step along the old velocity": (old, new)}


# %% check="sharded_update" points=3
rng, num_devices = np.random.default_rng(11), jax.device_count()
weights = np.float32(rng.normal(size=(2 * num_devices, 3)))
weights = np.stack([weights] * num_devices)
grads = np.float32(rng.normal(size=weights.shape) + 1)
velocity = np.float32(rng.normal(size=(num_devices, 2, 3)))
right = check_update(weights, velocity, grads, 0.5, 0.75)
causes = check_update_mistakes(weights, velocity, grads, 0.5, 0.75)
statement("the new slice", "the new weights")
arguments = weights, velocity, grads, "i", 0.5, 0.75
seen = observe(sharded_update, *arguments, axis="i", traced=True)
expect_close(seen, right, rtol=1e-4, atol=1e-5, mistakes=causes)
statement("one scatter, one gather")
expect_collectives(seen, {"reduce-scatter": 1, "all-gather": 1})
expect_moved(seen, at_most=1.01 * 2 * weights[0].nbytes * (1 - 1 / num_devices))
if num_devices > 1:  # one divides all
    statement("rows that do not divide")
    rows = num_devices + 1
    uneven = weights[:, :rows], velocity[:, :1], grads[:, :rows], *arguments[3:]
    seen = observe(sharded_update, *uneven, axis="i")
    expect_error(seen, "ValueError", mentions=[rows, num_devices])


### BEGIN HIDDEN TESTS
def case(rng, num_devices, shape, lr, beta, scale=1, axis="i", **more):
    rows, *rest = shape
    whole = np.float32(rng.normal(size=(rows * num_devices, *rest)) * scale)
    grads = np.float32(rng.normal(size=(num_devices, *whole.shape)) * scale - scale / 3)
    velocity = np.float32(rng.normal(size=(num_devices, *shape)) * scale)
    weights = np.stack([whole] * num_devices)
    return Case(weights, velocity, grads, axis, lr, beta, axis=axis, **more)


def cases(rng):
    devices = "any number of devices"
    yield case(rng, 3, (1,), 0.1, 0.9, statements=devices)
    yield case(rng, 2, (1, 3), 1e-2, 0.5)
    yield case(rng, 4, (3, 1), 0.3, 0.0, scale=1e3)
    yield case(rng, 6, (2, 2, 3), 0.25, 0.99, scale=1e-3, statements=devices)
    yield case(rng, 8, (5, 2), 0.1, 1.0, axis="data", statements="any axis name")


def uneven(rng):
    for num_devices, num_rows in ((2, 5), (3, 2), (4, 6), (8, 20)):
        rows = np.ones((num_devices, num_rows, 4 * num_devices), np.float32)
        slices = rows[:, : max(1, num_rows // num_devices)]
        yield Case(
            *(rows, slices, rows, "i", 0.1, 0.9),
            axis="i",
            mentions=(num_devices, num_rows),
        )


free = {
    "layout": "of a row per device",
    "arrays compiles": "nothing is said",
    "arguments": "traced",
}
expect_like_solution(
    sharded_update,
    cases,
    value=("the new slice", "the new weights"),
    collectives="one scatter, one gather",
    sent="one scatter, one gather",
    free=free | {"error": "below"},
)
expect_like_solution(
    sharded_update,
    uneven,
    error="rows that do not divide",
    free=free | {"value collectives sent": "above"},
)
statement("any number of devices", "the new slice")
alone = weights[:1, :5], grads[:1, :5] / 3, grads[1:2, :5].copy()
alone[-1][0, :2, 0] = np.inf, np.nan  # they are no numbers, and stay so
seen = observe(sharded_update, *alone, "i", 0.5, 0.75, axis="i")
expect_close(seen, check_update(*alone, 0.5, 0.75), rtol=1e-4, atol=1e-5)
statement("the new weights")
seen = observe(sharded_update, *arguments, axis="i")
bits = {row.tobytes() for row in seen.value[0]}
headline = "The devices hold different weights."
expect(seen, len(bits) == 1, headline, expected="the same bits on every device")
### END HIDDEN TESTS

# %% [markdown]
# **The ring.** How can an all-reduce need so little? Cut the array into D chunks and
# let every device send **one chunk** to its right neighbour, again and again. Below, in
# NumPy, four devices hold ones, so a value says how many blocks it contains.


# %%
def ring_states(chunks):  # (D, D): device, chunk; yields the state after each send
    num_devices = len(chunks)
    devices = np.arange(num_devices)
    for step in range(2 * (num_devices - 1)):
        arrived = np.roll(chunks[devices, (devices - step) % num_devices], 1)
        place = (devices - step - 1) % num_devices
        if step < num_devices - 1:  # first sum, then hand the sums around
            arrived = arrived + chunks[devices, place]
        chunks[devices, place] = arrived
        yield chunks.copy()


ones = np.ones((4, 4))
states = [ones.copy(), *ring_states(ones)]
titles = ["at first", *(f"after send {number}" for number in range(1, 7))]
draw_steps(states, titles, complete=4, row="chunk", ring=True)

# %% [markdown]
# Three sends sum (a reduce-scatter), three hand the finished chunks on (an all-gather).
# In step `s`, from 0 (send `s + 1`), device `d` sends chunk `d - s` and receives chunk
# `d - s - 1`, modulo D. After the first half it holds the finished chunk `d + 1` (not
# `d`, as after `psum_scatter`).

# %% [markdown]
# ### Exercise 2.6: ring_all_reduce
#
# [the sum of all devices] `ring_all_reduce(x, axis_name)` gets `x: (n, ...)`, floats or
# ints whose sums fit. It returns their sum over all devices, of the same shape and
# dtype, without `psum`: by `lax.ppermute` alone.
#
# - [sends of one chunk] `2 (D - 1)` sends, each of `n / D` rows. Python's `for` is fine.
# - [the same bits everywhere] All devices end with the same bits.
# - [rows that do not divide] Where `n` is not divisible by D: `ValueError`, and its text
#   names `n` and D. (Raise it yourself.)


# %% exercise="ring_all_reduce" minutes=19 difficulty=3
def ring_all_reduce(x, axis_name):
    """Sums over the devices by `lax.ppermute` alone.

    Args:
        x: (n, ...), this device's block.
        axis_name: the name of the devices' axis, which has D devices.

    Returns:
        The sum of all devices' blocks, of x's shape and dtype.

    Raises:
        ValueError: n is not divisible by D; the text names both.
    """
    ### BEGIN SOLUTION
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if len(x) % num_devices:
        raise ValueError(f"{len(x)} rows do not divide by {num_devices} devices")
    to_right = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    chunks = x.reshape(num_devices, -1, *x.shape[1:])
    for step in range(2 * (num_devices - 1)):
        sent = chunks[(me - step) % num_devices]
        arrived = lax.ppermute(sent, axis_name, to_right)
        place = (me - step - 1) % num_devices
        if step < num_devices - 1:
            arrived = arrived + chunks[place]
        chunks = chunks.at[place].set(arrived)
    return chunks.reshape(x.shape)
    ### END SOLUTION


# %% [markdown] hints="ring_all_reduce"
# - `chunks = x.reshape(D, len(x) // D, *x.shape[1:])`; `lax.axis_index(axis_name)` is
#   `d`. It is traced, and may still index the array: `chunks[(d - step) % D]`.
# - `chunks.at[place].add(arrived)` and `chunks.at[place].set(arrived)` return the
#   changed array.
# - The picture's cell is the whole algorithm. `np.roll` becomes a `lax.ppermute` to the
#   right; `devices` becomes this device's own number.


# %% helpers="ring_all_reduce"
def check_to_the_left(x):  # the right chunks, but sent to the left neighbour
    num_devices, devices = len(x), np.arange(len(x))
    chunks = np.float64(x).reshape(num_devices, num_devices, -1)
    for step in range(2 * (num_devices - 1)):
        sent = chunks[devices, (devices - step) % num_devices]
        arrived, place = np.roll(sent, -1, axis=0), (devices - step - 1) % num_devices
        if step < num_devices - 1:
            arrived = arrived + chunks[devices, place]
        chunks[devices, place] = arrived
    return chunks.reshape(x.shape)


# %% check="ring_all_reduce" points=4
rng, num_devices = np.random.default_rng(9), jax.device_count()
x = np.float32(rng.normal(size=(num_devices, 2 * num_devices, 3)))
total = np.broadcast_to(np.float64(x).sum(0), x.shape)
statement("the sum of all devices")
causes = {
    "each device kept its own block": lambda seen: (seen.value == 1).all(),
    "blocks were added more than once": lambda seen: seen.value.max() > len(ones),
    "the finished sums were not handed on": lambda seen: (
        (seen.value == len(ones)).sum() == len(ones)
    ),
}
ones = np.ones((num_devices, num_devices), np.float32)
seen = observe(ring_all_reduce, ones, "i", axis="i")
expect_close(seen, num_devices * ones, causes=causes)
seen = observe(ring_all_reduce, x, "i", axis="i", traced=True)
causes = {"the chunks were sent to the left, not to the right": check_to_the_left(x)}
expect_close(seen, total, rtol=1e-4, atol=1e-5, mistakes=causes)
statement("the same bits everywhere")
cause = "they differ by rounding: each device added in an order of its own"
expect_replicas(seen, causes={cause: lambda seen: np.ptp(seen.value, 0).max() < 1e-3})
statement("sends of one chunk")
expect_collectives(seen, {"collective-permute": 2 * (num_devices - 1)})
causes = {"whole blocks were sent, not chunks": x[0].size}
check_puts_in(seen, 2 * (num_devices - 1) * x[0].size // num_devices, causes)
if num_devices > 1:  # one divides all
    statement("rows that do not divide")
    seen = observe(ring_all_reduce, x[:, : num_devices + 1], "i", axis="i")
    expect_error(seen, "ValueError", mentions=[num_devices + 1, num_devices])


### BEGIN HIDDEN TESTS
def cases(rng):
    devices = "any number of devices"
    for num_devices, shape, dtype, what in (
        (1, (3,), np.float32, devices),
        (3, (3, 1), np.float32, devices),
        (2, (4,), np.float32, "any axis name"),
        (4, (12,), np.int32, "the sum of all devices"),
    ):
        x = np.asarray(rng.normal(size=(num_devices, *shape)) * 2e7, dtype)
        x[0, 0] = np.inf if num_devices == 2 else x[0, 0]
        axis = "ring" if what == "any axis name" else "i"
        yield Case(x, axis, axis=axis, statements=what)
    for num_devices, num_rows in ((2, 5), (3, 2), (4, 6)):
        x = np.zeros((num_devices, num_rows, 4 * num_devices), np.float32)
        yield Case(x, "i", axis="i", mentions=(num_devices, num_rows))


expect_like_solution(
    ring_all_reduce,
    cases,
    value=("the sum of all devices", "any number of devices", "any axis name"),
    error="rows that do not divide",
    free={
        "layout": "of a row per device",
        "collectives sent": "loops are free: they are counted below",
        "arrays compiles": "nothing is said",
        "arguments": "traced",
    },
)
for shape, dtype in (((3, 9, 7, 5), np.float32), ((4, 4), np.int32)):
    x = np.asarray(np.random.default_rng(1).normal(size=shape) * 100, dtype)
    statement("any number of devices")
    seen = observe(ring_all_reduce, x, "i", axis="i", traced=True)
    expect_close(seen, (x.sum(0, dtype=x.dtype) + 0 * x), rtol=1e-4, atol=1e-3)
    statement("the same bits everywhere")
    expect_replicas(seen)
    statement("sends of one chunk")
    rounds = 2 * (len(x) - 1)
    expect_collectives(seen, {"collective-permute": rounds})
    check_puts_in(seen, rounds * x[0].size // len(x), {})
zeros = -np.zeros((3, 6), np.float32)
zeros[1, ::2] = 0  # a sum of -0.0 alone is -0.0, and 0.0 + -0.0 is 0.0: other bits
statement("the same bits everywhere")
expect_replicas(observe(ring_all_reduce, zeros, "i", axis="i"))
### END HIDDEN TESTS

# %% [markdown]
# **What a collective costs.** A message of `m` bytes takes `latency + m / bandwidth`
# seconds. The ring sends `2 (D - 1)` messages of `n / D` bytes, one after the other. A
# *tree* combines the devices in pairs, then pairs of pairs, and hands the sum back the
# same way: for D a power of two `2 log2(D)` messages, one after the other, each of all
# `n` bytes.
#
# **Predict, then run.** Both columns below count what goes one after the other, not what
# each device sends. Which is better for a small array, which for a large one?

# %%
for count in (8, 64, 512):
    ring, tree = 2 * (count - 1), 2 * np.log2(count)
    print(f"{count:>3} devices", end="   ")
    print(f"ring: {ring:>4} messages, {ring / count:5.2f} n bytes", end="   ")
    print(f"tree: {tree:>2.0f} messages, {tree:5.2f} n bytes")

# %% [markdown]
# Few messages win where latency counts, few bytes where the array is large. Libraries
# switch between such algorithms, and have better ones: a *pipelined* tree sends its
# array in pieces, one behind the other, and is good at both.
#
# Your simulated devices share one memory and few cores. They show *what* is sent, never
# how fast.

# %% [markdown]
# ### Exercise 2.7: all_reduce_seconds
#
# [the seconds of a ring] `all_reduce_seconds(num_bytes, num_devices, bandwidth,
# latency)` returns the seconds (a Python number) that a ring all-reduce takes when each
# device holds `num_bytes`. `bandwidth` is in bytes per second, `latency` in seconds per
# message. Plain arithmetic; `num_devices` may be 1,000.
#
# - [one device sends nothing] One device has nothing to send.
# - [bad numbers raise] Fewer than one device: `ValueError`. A bandwidth of 0 or less:
#   `ValueError`, with one device, too. The text holds the bad number in full (either
#   one, if both are bad).


# %% exercise="all_reduce_seconds" minutes=7 difficulty=1
def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    """Predicts the time of a ring all-reduce.

    Args:
        num_bytes: of the array on each device.
        num_devices: how many take part, at least 1.
        bandwidth: of a link, in bytes per second, above 0.
        latency: of a message, in seconds.

    Returns:
        Seconds, a Python number.

    Raises:
        ValueError: num_devices or bandwidth is out of bounds; the text names it.
    """
    ### BEGIN SOLUTION
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    if bandwidth <= 0:
        raise ValueError(f"bandwidth must be above 0, got {bandwidth}")
    sends = 2 * (num_devices - 1)
    return sends * (latency + num_bytes / num_devices / bandwidth)
    ### END SOLUTION


# %% [markdown] hints="all_reduce_seconds"
# - How many messages does one device send, and how many bytes has each?
# - Each message costs its latency **and** its bytes divided by the bandwidth.

# %% check="all_reduce_seconds" points=1
sent = 2 * 256 * 7 / 8  # the bytes that 2.6 sends of 256 on 8 devices
causes = {
    "this is half the ring: the sums are handed on, too": sent / 4,
    "each message holds all bytes, not num_bytes / D": 14 * 256 / 2.0,
    "these are the messages of a tree": 2 * np.log2(8) * 256 / 2.0,
}
statement("the seconds of a ring")
seen = observe(all_reduce_seconds, 256, 8, 2.0, 0.0)  # bytes alone
expect_close(seen, sent / 2.0, mistakes=causes)
causes = {"the latency was counted once, not for each message": 0.5}
causes["without bytes there are messages all the same"] = 0.0
seen = observe(all_reduce_seconds, 0, 8, 1e9, 0.5)  # messages alone
expect_close(seen, 7.0, mistakes=causes)
expect_close(observe(all_reduce_seconds, 10, 4, 5.0, 0.25), 4.5)
statement("one device sends nothing")
expect_close(observe(all_reduce_seconds, 1000, 1, 1e9, 1.0), 0.0)
statement("bad numbers raise")
expect_error(observe(all_reduce_seconds, 8, 0, 1e9, 0.0), "ValueError", mentions=[0])
expect_error(observe(all_reduce_seconds, 8, 2, -5, 0.0), "ValueError", mentions=[-5])
expect_error(observe(all_reduce_seconds, 8, 2, 0, 0.0), "ValueError", mentions=[0])


### BEGIN HIDDEN TESTS
def cases(rng):
    one = "one device sends nothing"
    yield Case(600, 3, 100.0, 0.125)
    yield Case(7, 2, 3, 1)
    yield Case(0, 2, 1e9, 0.0)
    yield Case(0, 5, 1e9, 1e-6)
    yield Case(4096, 7, 1e15, 3.0)
    yield Case(10**10, 1000, 2.5e10, 1e-6)
    yield Case(*rng.integers(1, 1000, 2).tolist(), 0.5, 1e-3)
    yield Case(5, 1, 0.25, 2, statements=one)
    for num_devices, bandwidth in (
        *((-3, 1.0), (-40, 2), (2, -0.25), (1, -70)),
        *((-12345678, 1.0), (2, -12345678), (2, -0.0123456789)),  # all digits count
    ):
        bad = num_devices if num_devices < 1 else bandwidth
        yield Case(8, num_devices, bandwidth, 0.0, mentions=[bad])


expect_like_solution(
    all_reduce_seconds,
    cases,
    value="the seconds of a ring",
    layout="the seconds of a ring",
    error="bad numbers raise",
    free={
        "collectives sent arrays compiles": "it works on numbers",
        "arguments": "numbers cannot change",
    },
)
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 2.8: ensemble_probs
#
# Lesson 1 initialised an ensemble: a different model on each device. For a prediction,
# all members see the same batch, and their *probabilities* are averaged.
#
# `ensemble_probs(params, x, axis_name)` gets this device's member
# `{"w": (F, C), "b": (C,)}` and the batch `x: (B, F)`.
#
# - [the mean of the members] It returns the mean over the devices of
#   `softmax(x @ w + b)`, `(B, C)`, the same on each. The softmax is each row's, over
#   its `C` classes.
# - [large logits are fine] Logits in the thousands give finite, right results, as
#   `jax.nn.softmax` does.
# - [only probabilities are sent] Parameters are not sent: each device puts in `B * C`
#   numbers.
# - [arguments stay] Do not change `params`.


# %% exercise="ensemble_probs" minutes=7 difficulty=1
def ensemble_probs(params, x, axis_name):
    """Averages the members' predictions.

    Args:
        params: {"w": f32[F, C], "b": f32[C]}, this device's member.
        x: f32[B, F], the same batch on every device.
        axis_name: the name of the devices' axis.

    Returns:
        f32[B, C], the mean of the members' probabilities.
    """
    ### BEGIN SOLUTION
    return lax.pmean(jax.nn.softmax(x @ params["w"] + params["b"]), axis_name)
    ### END SOLUTION


# %% [markdown] hints="ensemble_probs"
# - `jax.nn.softmax` works along the last axis. First one member's probabilities.
# - Then one `lax.pmean`. Softmax is not linear, so the order matters.


# %% helpers="ensemble_probs"
def check_softmax(logits):  # in 64 bits
    powers = np.exp(np.float64(logits) - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


# %% check="ensemble_probs" points=1
rng, num_devices = np.random.default_rng(3), jax.device_count()
w, b = (np.float32(rng.normal(size=(num_devices, *s)) * 2) for s in ((9, 3), (3,)))
params = {"w": w, "b": b}
x = np.stack([np.float32(rng.normal(size=(5, 9)))] * num_devices)
logits = x @ w + b[:, None]
mean = 0 * logits + check_softmax(logits).mean(0)
of_mean = check_softmax(0 * logits + logits.mean(0))
causes = {
    "this is the softmax of the mean logits": of_mean,
    "the members' probabilities were summed": num_devices * mean,
    "each device kept its own member's answer": check_softmax(logits),
    "the biases were left out": check_softmax(x @ w).mean(0) + 0 * mean,
}
statement("the mean of the members")
seen = observe(ensemble_probs, params, x, "i", axis="i", traced=True)
expect_close(seen, mean, mistakes=causes)
statement("only probabilities are sent")
check_puts_in(seen, 5 * 3, {"the parameters were sent": 9 * 3}, least=5 * 3)
statement("large logits are fine")
x = x * np.float32(300)
seen = observe(ensemble_probs, params, x, "i", axis="i")
z = np.float64(x) @ w + b[:, None]
overflown = 0 * mean + np.mean(jnp.exp(z) / jnp.exp(z).sum(-1, keepdims=True), 0)
mean = 0 * mean + check_softmax(z).mean(0)
expect_close(seen, mean, atol=1e-3, mistakes={"exp overflows": overflown})


### BEGIN HIDDEN TESTS
def cases(rng):
    mean, devices = "the mean of the members", "any number of devices"
    for num_devices, (rows, features, classes), scale, what in (
        (1, (2, 1, 3), 1, devices),
        (3, (2, 3, 1), 1, mean),  # of one class the probability is 1
        (2, (4, 3, 4), 5, mean),
        (4, (1, 5, 2), 1e-3, mean),
        (8, (2, 17, 5), 1, "any axis name"),
    ):
        w = np.float32(rng.normal(size=(num_devices, features, classes)) * scale)
        b = np.float32(rng.normal(size=(num_devices, classes)) * 2 * scale)
        x = np.float32(rng.normal(size=(rows, features)) - 0.5)
        x = np.stack([x] * num_devices)
        axis = "members" if what == "any axis name" else "i"
        yield Case({"w": w, "b": b}, x, axis, axis=axis, statements=what)


expect_like_solution(
    ensemble_probs,
    cases,
    value=("the mean of the members", "any number of devices", "any axis name"),
    put_in="only probabilities are sent",
    arguments="arguments stay",
    free={
        "error": "it raises none",
        "layout": "of a row per device",
        "collectives": "a sum or a gathering",
        "arrays compiles": "nothing is said",
    },
)
w, b = w[:6, :1] / 10, b[:6] * 10  # a member has fewer numbers than the answer
x = np.float32(np.broadcast_to(rng.normal(size=(7, 1)), (6, 7, 1)))
probs = check_softmax(np.float64(x) @ w + b[:, None]).mean(0)
statement("any number of devices", "large logits are fine")
seen = observe(ensemble_probs, {"w": w, "b": b}, x, "i", axis="i", traced=True)
expect_close(seen, np.broadcast_to(probs, (6, 7, 3)), atol=1e-3)
statement("only probabilities are sent")
check_puts_in(seen, 7 * 3, {}, least=7 * 3)
### END HIDDEN TESTS

# %% [markdown]
# ## Bonus: attention and experts
#
# **Attention in a ring.** Each of T positions looks at all T: a matrix of T x T scores,
# too large for a device where the text is long. So split the positions: queries stay,
# keys and values travel around the ring, and each device adds what a block gives to its
# result.
#
# A 1 in part `b`: the device has added block `b`. Arrows: blocks travel, not results.

# %%
parts = np.eye(4)  # device, block: at first each device adds its own
states = [parts]
for _ in range(3):
    states.append(np.maximum(states[-1], np.roll(states[-1], 1, axis=0)))
titles = ["at first", *(f"after send {number}" for number in range(1, 4))]
draw_steps(states, titles, complete=1, row="part", ring=True)

# %% [markdown]
# A softmax needs its row's largest score, which no block knows. So a device keeps, for
# each row, the largest score **so far** and the sum of `exp(score - largest)`. When a
# larger one comes, what was summed is multiplied by `exp(old - new)`.
#
# **Predict, then run.** A row's scores come in two blocks, below. By about how much
# must the first sum be multiplied: 1/3, 1/7 or 1/20?

# %%
blocks = np.float64([[1000, 1001], [1003, 1002]])
first, second = blocks.max(axis=1)
sums = np.exp(blocks - blocks.max(axis=1, keepdims=True)).sum(axis=1)
largest = max(first, second)
total = sums[0] * np.exp(first - largest) + sums[1] * np.exp(second - largest)
print(f"the first sum is multiplied by {np.exp(first - largest):.3f}")
print("as of all four:", np.isclose(total, np.exp(blocks - blocks.max()).sum()))

# %% [markdown]
# ### Exercise 2.9: ring_attention
#
# [attention over all positions] `ring_attention(q, k, v, axis_name)` gets this device's
# N positions, `q, k: (N, F)` and `v: (N, C)`. It returns its `(N, C)` rows of
# `softmax(q @ k.T / sqrt(F)) @ v` over the keys of **all** devices, without a mask.
#
# - [large scores are fine] Scores of ±10,000, after the division by `sqrt(F)`, give
#   finite, right results.
# - [keys and values travel] Each device sends `D - 1` blocks of keys and as many of
#   values, by `lax.ppermute`, together or one by one, and nothing else.
# - [never the whole sequence] No array holds several blocks' keys, values, scores or
#   results, side by side or stacked. None is larger than one block's scores, or than its
#   keys and values together.


# %% exercise="ring_attention" minutes=19 difficulty=3
def ring_attention(q, k, v, axis_name):
    """Computes attention over a sequence that is split over the devices.

    Args:
        q: f32[N, F], the queries of this device's positions.
        k: f32[N, F], their keys.
        v: f32[N, C], their values.
        axis_name: the name of the devices' axis, which has D devices.

    Returns:
        f32[N, C], this device's rows of the attention over all D * N positions.
    """
    ### BEGIN SOLUTION
    num_devices = lax.axis_size(axis_name)
    to_right = [(d, (d + 1) % num_devices) for d in range(num_devices)]
    largest, total, weighted = -jnp.inf, 0, 0
    for step in range(num_devices):
        if step:
            k, v = lax.ppermute((k, v), axis_name, to_right)
        scores = q @ k.T / q.shape[1] ** 0.5
        highest = jnp.maximum(largest, scores.max(axis=1, keepdims=True))
        powers, fading = jnp.exp(scores - highest), jnp.exp(largest - highest)
        total = total * fading + powers.sum(axis=1, keepdims=True)
        weighted = weighted * fading + powers @ v
        largest = highest
    return weighted / total
    ### END SOLUTION


# %% [markdown] hints="ring_attention"
# - Python's `for` over D blocks is fine, the own one first. `lax.ppermute((k, v),
#   axis_name, ring)` sends both; make `ring`, its pairs, from D.
# - Start with `largest, total, weighted = -jnp.inf, 0, 0`. Of each block's scores:
#   `highest = jnp.maximum(largest, scores.max(axis=1, keepdims=True))`.
# - `weighted` sums `powers @ v` as `total` sums the powers. Both are multiplied by
#   `jnp.exp(largest - highest)` before a block is added; divide at the end.


# %% helpers="ring_attention"
def check_scores(q, k):  # (D, D, N, N): device, block of keys; in 64 bits
    return np.einsum("dnf,bmf->dbnm", np.float64(q), k) / q.shape[-1] ** 0.5


def check_attention(q, k, v):  # over all blocks at once
    scores = np.concatenate(np.moveaxis(check_scores(q, k), 1, 0), axis=-1)
    return check_softmax(scores) @ v.reshape(-1, v.shape[-1])


def check_blocks_alone(q, k, v):  # (D, D, N, C): what each block alone would give
    return check_softmax(check_scores(q, k)) @ v


def check_unfaded(q, k, v):  # block after block, what was summed left as it was
    result = np.zeros(v.shape)
    for device, scores in enumerate(check_scores(q, k)):
        order = (device - np.arange(len(q))) % len(q)
        highest = np.maximum.accumulate(scores[order].max(-1, keepdims=True))
        powers = np.exp(scores[order] - highest)
        result[device] = (powers @ v[order]).sum(0) / powers.sum((0, 2))[:, None]
    return result


def check_ring(seen, q, v):  # what is sent: D - 1 blocks of keys and values
    check_that_it_traces(seen)
    others, block = len(q) - 1, q[0].size + v[0].size
    sizes = [int(np.prod(one.shape)) for one in seen.collectives]
    times = [one.times or np.inf for one in seen.collectives]
    numbers = sum(size * often for size, often in zip(sizes, times, strict=True))
    kinds = sorted({one.kind for one in seen.collectives} - {"collective-permute"})
    causes = {
        "all blocks were gathered on every device": lambda _: "all-gather" in kinds,
        "the last send brings each block home, where it was used first": lambda _: (
            numbers == (others + 1) * block
        ),
        "the queries were sent, too: they stay": lambda _: (
            numbers == others * (block + q[0].size)
        ),
    }
    rows = {"seen": "; ".join(map(str, seen.collectives)) or "no collective"}
    headline = "The blocks do not travel by collective-permute alone."
    rows["expected"] = "collective-permute alone"
    check_that(seen, not kinds, headline, causes=causes, **rows)
    headline = f"Each device puts {numbers} numbers into collectives."
    rows["expected"] = f"at most {others * block} numbers"
    check_that(seen, numbers <= others * block, headline, causes=causes, **rows)


# %% check="ring_attention" points=2 bonus=true
rng, num_devices = np.random.default_rng(21), jax.device_count()
q, k, v = (np.float32(rng.normal(size=(num_devices, 9, n)) * 2) for n in (10, 10, 2))
blocks = check_blocks_alone(q, k, v)
own = blocks[np.arange(num_devices), np.arange(num_devices)]
causes = {
    "each device looked at its own keys alone": own,
    "each block got a softmax of its own, and these were averaged": blocks.mean(1),
    "the scores were not divided by sqrt(F)": check_attention(q * 10**0.5, k, v),
    "a larger score came, and earlier sums were not multiplied": check_unfaded(q, k, v),
}
statement("attention over all positions")
seen = observe(ring_attention, q, k, v, "i", axis="i", traced=True)
expect_close(seen, check_attention(q, k, v), rtol=1e-4, atol=1e-4, mistakes=causes)
statement("keys and values travel")
check_ring(seen, q, v)
statement("never the whole sequence")
expect_arrays(seen, largest=max(2 * 9 * 9 - 1, v.size))  # below two blocks' scores
statement("large scores are fine")
levels = 100 * np.float32([1, 3, 2, 3] * num_devices)[:num_devices, None]
q[..., 0], k[..., 0] = 100 * (-1.0) ** np.arange(9), levels
k[:, 0, 0] /= 10  # in a block, too, scores lie far apart
seen = observe(ring_attention, q, k, v, "i", axis="i")
cause = "exp overflows, or gives zeros alone: subtract each row's largest score so far"
causes = {cause: lambda seen: np.isnan(seen.value).any()}
expect_close(seen, check_attention(q, k, v), rtol=2e-2, atol=2e-2, causes=causes)


### BEGIN HIDDEN TESTS
def cases(rng):
    attention, devices = "attention over all positions", "any number of devices"
    for num_devices, (rows, width, values), scale, what in (
        (1, (3, 2, 4), 1, devices),
        (3, (1, 7, 3), 2, devices),
        (2, (5, 1, 1), 1, attention),
        (4, (4, 4, 4), 0.1, "any axis name"),
    ):
        sizes = width, width, values
        arrays = (rng.normal(size=(num_devices, rows, n)) * scale for n in sizes)
        q, k, v = map(np.float32, arrays)
        axis = "sequence" if what == "any axis name" else "i"
        yield Case(q, k, v + 1, axis, rtol=1e-3, axis=axis, statements=what)


expect_like_solution(
    ring_attention,
    cases,
    scales=(0, 10),  # scores beyond 10,000 are not asked for
    value=("attention over all positions", "any number of devices", "any axis name"),
    put_in="keys and values travel",
    free={
        "error": "it raises none",
        "layout": "of a row per device",
        "collectives": "both in one, or each alone: counted below",
        "arrays": "below",
        "compiles": "nothing is said",
        "arguments": "traced",
    },
)
rng = np.random.default_rng(3)
for count, rows, width, values in ((6, 7, 8, 2), (3, 4, 5, 2)):
    q, k = np.float32(rng.normal(size=(2, count, rows, width)))
    v = np.float32(rng.normal(size=(count, rows, values)) - 3)
    q[..., 0], k[..., 0] = -400, 100 * (np.arange(count)[::-1, None] % 3 - 0.5)
    statement("any number of devices", "large scores are fine")
    seen = observe(ring_attention, q, k, v, "i", axis="i", traced=True)
    expect_close(seen, check_attention(q, k, v), rtol=2e-2, atol=2e-2)
    statement("keys and values travel")
    check_ring(seen, q, v)
    statement("never the whole sequence")
    most = 2 * rows * min(rows, width) - 1  # less than of two blocks
    expect_arrays(seen, largest=most, never=(count, rows))
    expect_arrays(seen, never=(count - 1, rows, values))
### END HIDDEN TESTS

# %% [markdown]
# Under a *causal* mask, where a position sees no later ones, it matters whose block
# arrives: that of device `d - s` after `s` sends to the right.

# %% [markdown]
# **A mixture of experts.** Of many small networks a token uses one, which the model
# chooses. Expert `d` lives on device `d`, the tokens are split over all devices: so
# they go to their expert by an `all_to_all`, and results come back by another.
#
# A program's shapes cannot depend on choices. So each device has `capacity` **slots**
# for each expert; its tokens take them row by row, empty slots travel as zeros, and a
# token without a slot is **dropped**.
#
# **Predict, then run.** Four tokens on each device, two slots. Which are dropped?

# %%
few = min(4, num_devices)
tokens = 10 * np.arange(few)[:, None] + np.arange(1, 5)
expert = np.array([[1, 1, 0, 1], [0, 2, 2, 3], [3, 3, 3, 3], [2, 0, 1, 0]])[:few] % few


def slots_of(expert):  # of each row: how many earlier ones chose the same expert
    same = expert[:, None] == expert[None]
    return jnp.tril(same, -1).sum(axis=1)


filled = np.zeros((few, few, 2), np.int32)  # device, expert, slot
for device in range(few):
    slots = np.asarray(slots_of(expert[device]))
    for row in np.flatnonzero(slots < 2):
        filled[device, expert[device, row], slots[row]] = tokens[device, row]
arrived = spmd(lambda x: lax.all_to_all(x, "i", 0, 0))(filled)
draw_collective('lax.all_to_all(x, "i", 0, 0)', filled, arrived)

# %% [markdown]
# White zeros: empty slots. Dropped: 4, 23, 24. Before, a device's rows are experts;
# after, an expert's rows are devices. The second `all_to_all` takes results back to the
# same row and slot. (Without `tiled=True`, the axis that is cut has size D and goes;
# what arrives is stacked along a new one.)

# %% [markdown]
# ### Exercise 2.10: expert_layer
#
# Device `d` holds expert `d`, a layer, `params = {"w": (F, C), "b": (C,)}`; its
# own tokens `x: (B, F)`; and the number of the expert that each chose, `expert:
# (B,)`, from 0 to `D - 1`.
#
# [each token by its expert] `expert_layer(params, x, expert, capacity, axis_name)`
# returns `(B, C)`: in a token's row, `tanh(token @ w + b)` of its expert.
#
# - [at most capacity tokens] Of each device's tokens for one expert, the first
#   `capacity` rows count (a plain number, at least 1). The others give 0; what
#   they hold, even `nan`, changes nothing.
# - [two all_to_alls] One `all_to_all` of at most `D * capacity` tokens, one of as many
#   results; no more is sent.
# - [arguments stay] Do not change `params`.


# %% exercise="expert_layer" minutes=18 difficulty=3
def expert_layer(params, x, expert, capacity, axis_name):
    """Sends each token to the device of its expert, and the result back.

    Args:
        params: {"w": f32[F, C], "b": f32[C]}, this device's expert.
        x: f32[B, F], this device's tokens.
        expert: i32[B], which expert each token chose.
        capacity: how many tokens a device sends to one expert at most.
        axis_name: the name of the devices' axis, which has D devices.

    Returns:
        f32[B, C], each token's result; 0 where it was dropped.
    """
    ### BEGIN SOLUTION
    num_experts = lax.axis_size(axis_name)
    place = expert, slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1]))
    sent = sent.at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)
    ### END SOLUTION


# %% [markdown] hints="expert_layer"
# - The picture's cell, without its loop: `place = expert, slots_of(expert)` are each
#   token's row and slot in an array of zeros, `(D, capacity, F)`.
# - `sent.at[place].set(x, mode="drop")` fills it, and leaves out what has no slot. What
#   arrives is `(D, capacity, F)`, too: your expert computes all of it at once.
# - After the second `lax.all_to_all(results, axis_name, 0, 0)` each result is where its
#   token was: `returned.at[place].get(mode="fill", fill_value=0)`.


# %% helpers="expert_layer"
def check_slots(expert):  # (D, B): how many earlier rows chose the same
    return np.tril(expert[:, :, None] == expert[:, None, :], -1).sum(-1)


def check_whole(params, x, expert):  # every token by its expert, in 64 bits
    w, b = (np.float64(params[name])[expert] for name in ("w", "b"))
    return np.tanh(np.einsum("dbf,dbfc->dbc", x, w) + b)


def check_experts(params, x, expert, capacity):
    kept = check_slots(expert) < capacity
    return np.where(kept[..., None], check_whole(params, x, expert), 0)


def check_expert_mistakes(params, x, expert, capacity):
    whole, slots = check_whole(params, x, expert), check_slots(expert)
    dropped = slots[..., None] >= capacity
    last = check_slots(expert[:, ::-1])[:, ::-1, None] < capacity
    own = np.arange(len(x))[:, None] + 0 * expert
    same = expert[:, :, None] == expert[:, None, :]
    of_last_slot = (same & (slots[:, None] == capacity - 1)).argmax(-1)[..., None]
    nearest = np.take_along_axis(whole, of_last_slot, 1)
    of_zeros = check_whole(params, 0 * x, expert)
    device, row = np.nonzero(slots < capacity)
    place = device, expert[device, row], slots[device, row]
    sent = np.zeros((len(x), len(x), capacity, x.shape[2]))
    sent[place] = x[device, row]
    arrived = np.moveaxis(sent, 0, 1) @ np.float64(params["w"])[:, None]
    stay = 0 * whole
    stay[device, row] = np.tanh(arrived + params["b"][:, None, None])[place]
    return {
        "the results did not travel back: that takes a second all_to_all": stay,
        "no token was dropped": whole,
        "the last rows took the slots, not the first": whole * last,
        "each device used its own expert": check_whole(params, x, own),
        "a dropped token got another one's result": np.where(dropped, nearest, whole),
        "a dropped token got what its expert makes of zeros": np.where(
            dropped, of_zeros, whole
        ),
        "slots were counted over all experts together": whole
        * (np.arange(x.shape[1]) < capacity)[:, None],
    }


def check_experts_case(rng, num_devices, num_tokens, sizes, experts=None):
    features, classes = sizes
    shapes = {"w": (num_devices, features, classes), "b": (num_devices, classes)}
    params = {name: np.float32(rng.normal(size=s)) for name, s in shapes.items()}
    x = np.float32(rng.normal(size=(num_devices, num_tokens, features)))
    share = rng.random((num_devices, num_tokens)) ** 2  # the first are popular
    return params, x, np.int32((experts or num_devices) * share)


# %% check="expert_layer" points=2 bonus=true
rng, num_devices = np.random.default_rng(4), jax.device_count()
params, x, expert = check_experts_case(rng, num_devices, 12, (5, 3))
statement("each token by its expert", "at most capacity tokens")
causes = check_expert_mistakes(params, x, expert, 2)
seen = observe(expert_layer, params, x, expert, 2, "i", axis="i", traced=True)
wanted = check_experts(params, x, expert, 2)
expect_close(seen, wanted, rtol=1e-4, atol=1e-5, mistakes=causes)
statement("two all_to_alls")
causes = {
    "all tokens, or all experts, were gathered": lambda seen: any(
        one.kind == "all-gather" for one in seen.collectives
    ),
    "the tokens' choices were sent, too": lambda seen: any(
        one.dtype == "i32" for one in seen.collectives
    ),
}
expect_collectives(seen, {"all-to-all": 2}, causes=causes)
cause = "every token was sent to every expert"
check_puts_in(seen, num_devices * 2 * (5 + 3), {cause: num_devices * 12 * 5})


### BEGIN HIDDEN TESTS
def cases(rng):
    full, devices = "at most capacity tokens", "any number of devices"
    for num_devices, num_tokens, sizes, capacity, experts, what in (
        (1, 5, (2, 3), 3, 1, devices),
        (3, 7, (1, 4), 1, 3, devices),
        (2, 3, (4, 4), 5, 2, "each token by its expert"),  # more slots than tokens
        (2, 300, (3, 1), 4, 1, full),  # all to the first: 8 bits do not count them
        (6, 11, (3, 2), 3, 6, "any axis name"),
    ):
        case = check_experts_case(rng, num_devices, num_tokens, sizes, experts)
        axis = "expert" if what == "any axis name" else "i"
        yield Case(*case, capacity, axis, axis=axis, statements=what)


expect_like_solution(
    expert_layer,
    cases,
    value=(
        "each token by its expert",
        "at most capacity tokens",
        "any number of devices",
        "any axis name",
    ),
    put_in="two all_to_alls",
    arguments="arguments stay",
    free={
        "error": "it raises none",
        "layout": "of a row per device",
        "collectives": "of several devices alone: below",
        "arrays compiles": "nothing is said",
    },
)
params, x, expert = check_experts_case(rng, 6, 9, (2, 7), 5)  # nobody's: the last
x[check_slots(expert) >= 2] = np.nan  # what is dropped
x[0, check_slots(expert)[0].tolist().index(1)] = np.nan  # counts: in the last slot
statement("any number of devices", "at most capacity tokens")
seen = observe(expert_layer, params, x, 5 - expert, 2, "i", axis="i", traced=True)
wanted = check_experts(params, x, 5 - expert, 2)
expect_close(seen, wanted, rtol=1e-4, atol=1e-5)
statement("two all_to_alls")
expect_collectives(seen, {"all-to-all": 2})
check_puts_in(seen, 6 * 2 * (2 + 7), {})
### END HIDDEN TESTS

# %% scorecard=true
