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
# - [entries stay on their device] No device sends its entries: it sends what it made of
#   them.
# - [two numbers are sent] Each device puts in two numbers.


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

# %% check="masked_mean"

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
# - [rows stay on their device] Statistics are sent, not rows.
# - [two numbers per feature are sent] For each feature a device puts in two numbers at
#   most, in all.


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

# %% check="sync_batch_norm"

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
# - [logits stay on their device] No device sends its logits.
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

# %% check="sharded_log_softmax"

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

# %% check="reshard_rows_to_columns"

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
# | `soft_pmap`, `xmap` (gone) | `shard_map`, or `vmap` inside it |
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

# %% check="sharded_update"

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

# %% check="ring_all_reduce"

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

# %% check="all_reduce_seconds"

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

# %% check="ensemble_probs"

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

# %% check="ring_attention"

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

# %% check="expert_layer"

# %% [markdown]
# **Your score.** The scorecard shows what the checks above said last. Save the notebook,
# then run `make grade` in a terminal, in the course's folder: it grades the saved file as
# a class's work is graded, and shows the same cards.

# %% scorecard=true
