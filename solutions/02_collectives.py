# %% [markdown]
# # Lesson 2. Collectives: how devices talk
#
# COLAB_BADGE
#
# Llama 3 8B has eight billion parameters. When it trains on eight GPUs, each of them ends
# its backward pass with 16 GB of gradients (in bfloat16; Meta sums them in float32), and
# before any weight may change, all eight have to agree on their average. How long does
# that take? And must every GPU keep all of Adam's 64 GB of state (two float32 numbers for
# each weight), on a card that has 80 GB?
#
# Devices talk in **collectives**, operations in which all of them take part at once. (If
# one device skips a collective, for example in a `lax.cond`, the others wait, and the
# program hangs.) At the end of the first part, a training step of your own answers both
# questions.
#
# **You need** lesson 1. **Time**: about 90 minutes for four exercises, with a pause.
# "Going further" takes 80 more, and the bonus after it 65.

# %% setup=true

# %% [markdown]
# ## 1. An axis with a name
#
# A **mesh** arranges devices along named axes; ours is a single row of eight with the
# axis `"i"`. `jax.shard_map` runs a function once on every device of a mesh. With
# `in_specs=P("i")`, the first axis of each argument is split over `"i"`, so that each
# device gets its block; `out_specs=P("i")` joins the results. Inside, a collective
# names the axis over which it talks: `lax.psum(x, "i")` is the sum of `x` over all
# devices, and `lax.axis_index("i")` is the number of this one.
#
# In this lesson every array has one row per device. The helper `spmd` removes a block's
# first axis, of size 1, before `f` and restores it afterwards, so `f` is what one device
# does with its row.

# %%
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

num_devices = jax.device_count()  # 8, unless you run on real devices
few = min(4, num_devices)  # for pictures that would be too wide
# Lesson 4 explains the types of axes.
mesh = jax.make_mesh((num_devices,), ("i",), axis_types=(AxisType.Auto,))
first_devices = {"axis_types": (AxisType.Auto,), "devices": jax.devices()[:few]}
small = jax.make_mesh((few,), ("i",), **first_devices)


def spmd(f, on=None, check_vma=False):  # section 4 explains check_vma
    """Runs f on every device of a mesh, each with its row of every argument."""

    def one_device(*blocks):
        rows = jax.tree.map(lambda block: block[0], blocks)
        return jax.tree.map(lambda row: row[None], f(*rows))

    specs = {"in_specs": P("i"), "out_specs": P("i"), "check_vma": check_vma}
    return jax.jit(jax.shard_map(one_device, mesh=on or mesh, **specs))


# %% [markdown]
# **Predict, then run.** Device `d` holds two numbers, `10 d` and `10 d + 1`. What does
# device 3 hold after `psum`?

# %%
guess = None  # your prediction, for the first of the two numbers
x = np.float32(10 * np.arange(num_devices)[:, None] + np.arange(2))  # f32[8, 2]
draw_collective('lax.psum(x, "i")', x, spmd(lambda x: lax.psum(x, "i"))(x))
draw_collective('lax.pmean(x, "i")', x, spmd(lambda x: lax.pmean(x, "i"))(x))
draw_collective('lax.pmax(x, "i")', x, spmd(lambda x: lax.pmax(x, "i"))(x))
print("axis_index:", spmd(lambda x: lax.axis_index("i"))(x))
prediction("device 3's first number after psum", int(x[:, 0].sum()), guess)

# %% [markdown]
# It holds what all the others hold: 280 and 288, the sums over the eight devices. In
# these pictures a value has the colour of its device; white values were combined from
# several.

# %% [markdown]
# **The same function under `pmap`.** Lesson 1's `pmap` names its axis, too, and the
# collectives inside are the same to the letter. They also take **trees** of arrays.


# %%
def average(tree):
    return lax.pmean(tree, "i")


tree = {"w": x, "b": x[:, 0]}
with_shard_map = spmd(average)(tree)
with_pmap = jax.pmap(average, axis_name="i")(tree)
same = [np.allclose(with_shard_map[key], with_pmap[key]) for key in tree]
print("same numbers:", all(same))
print("a mean on each device:", jax.tree.map(np.shape, with_shard_map))
# Without spmd, the mean keeps the block's first axis, of size 1.
once = jax.shard_map(average, mesh=mesh, in_specs=P("i"), out_specs=P())
print("out_specs=P(), one mean: ", jax.tree.map(np.shape, jax.jit(once)(tree)))

# %% [markdown]
# `out_specs=P()` says that the result is replicated, so that `shard_map` returns it
# once. It first proves that this is true, and refuses if it cannot.

# %% [markdown]
# ## 2. Combining: sums, means, maxima
#
# **Common mistake: the mean of means.** Where devices hold different amounts of valid
# data, the mean of their means is *not* the mean of the data.
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
# The last device holds eight of the 36 numbers and ought to weigh eight times as much
# as device 0.
#
# **From here on you write what one device does.** Your function gets this device's row
# and the name of the axis. As in lesson 1, it leaves its arguments as they are and does
# not depend on earlier calls. Each exercise asks for one more thing:
#
# - [any axis] The axis may have any name and any number `D` of devices.
#   `lax.axis_size(axis_name)` is `D`, a plain number.
#
# Rows in **bold** are essential: together they are worth half of the points, and if one
# of them fails, the exercise earns nothing. The other rows share the other half.

# %% [markdown]
# ### Exercise 2.1: masked_mean
#
# Texts in a batch are padded to one length, and the loss averages over the real tokens.
# One device may hold 8,000 real tokens and another 500; in the average of their means a
# token of the second has sixteen times the weight. In October 2024 it turned out that
# widely used training libraries did just this when they accumulated gradients ([how
# Hugging Face fixed it](https://huggingface.co/blog/gradient_accumulation)).
#
# Each device has values `x` and a `mask` of the same shape, `True` where an entry
# counts. Write `masked_mean(x, mask, axis_name)`: the mean over the counted entries of
# *all* devices, a scalar, the same on each of them.
#
# ```python
# # device 0:  x = [1, 2, 9]   mask = [True, True, False]
# # device 1:  x = [6, 9, 9]   mask = [True, False, False]
# masked_mean(x, mask, "i")  # 3.0 on both; the mean of their means is 3.75
# ```
#
# To try it by hand, map it as `check` does, in a cell below your function:
#
# ```python
# values, counted = np.arange(24.0).reshape(8, 3), np.eye(8, 3, dtype=bool)
# spmd(lambda x, mask: masked_mean(x, mask, "i"))(values, counted)  # f32[8]
# ```
#
# - [mean of all entries] The result is the mean over all counted entries.
# - [only sums travel] How many numbers a device sends does not depend on how many
#   entries it has, only on `D`.
# - [padding ignored] Masked entries may hold anything, `nan` and `inf` included. (A
#   `nan` that counts still makes the mean `nan`.)
# - [empty mask] Where no entry counts on any device, the result is 0.


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
    # Sums can be added up, means cannot: so the division comes last, and there is one.
    # Two scalars travel, which XLA may send in one message. Training code often returns
    # sum and count from the loss function for this reason, and divides outside.
    total = lax.psum(jnp.sum(jnp.where(mask, x, 0)), axis_name)
    count = lax.psum(jnp.sum(mask), axis_name)
    return total / jnp.maximum(count, 1)
    ### END SOLUTION


# %% [markdown] hints="masked_mean"
# - You need two sums over all devices: of the entries that count, and of how many.
# - `jnp.where(mask, x, 0)` drops what does not count, even `nan`, in the forward pass.
# - Divide by `jnp.maximum(count, 1)`: 0 / 1 gives the required 0.

# %% check="masked_mean"

# %% [markdown] built="masked_mean"
# This is the loss of every padded batch. MaxText sums the tokens' losses and their
# number and divides once, too. Megatron-LM does so with `--calculate-per-token-loss`;
# its default is a mean of means.
#
# <!-- Megatron-LM, megatron/core/pipeline_parallel/schedules.py at commit 00611e6 (read
# in 2026): without calculate_per_token_loss, each microbatch's loss is divided by its
# own number of tokens, then by num_microbatches. -->


# %%
@needs("masked_mean")
def _():
    lengths = 8000 // (1 + 2 * numbers)  # real tokens on each device
    mask = np.arange(8000) < lengths[:, None]
    rng = np.random.default_rng(0)
    losses = np.float32(rng.exponential(2 + numbers[:, None], mask.shape))
    losses[~mask] = np.nan  # whatever the padding happens to hold
    own = [row[kept].mean() for row, kept in zip(losses, mask, strict=True)]
    mean = spmd(lambda x, mask: masked_mean(x, mask, "i"))(losses, mask)
    print("real tokens on each device:", *lengths)
    print("loss on each device:       ", *(f"{loss:.2f}" for loss in own))
    print(f"the mean of these means:     {np.mean(own):.2f}")
    print(f"your masked_mean:            {mean[0]:.2f}")
    print(f"one device, all the tokens:  {losses[mask].mean(dtype=float):.2f}")


# %% [markdown]
# The next exercise is part of a loss, and so is differentiated. `psum` has a derivative,
# `pmax` and `pmin` have none: JAX refuses. A maximum that is subtracted only against
# overflow does not change the result: it needs no derivative, and `lax.stop_gradient`
# says so. Put it around what goes *in*; around the result it comes too late.

# %%
for name, top in (
    ("pmax(w)", lambda w: lax.pmax(w, "i")),
    ("stop_gradient(pmax(w))", lambda w: lax.stop_gradient(lax.pmax(w, "i"))),
    ("pmax(stop_gradient(w))", lambda w: lax.pmax(lax.stop_gradient(w), "i")),
):
    try:
        gradient = spmd(jax.grad(lambda w, top=top: w - top(w)))(np.float32(numbers))
        print(f"{name:<23} gradient of w - top: {gradient[0]:.0f} on each device")
    except NotImplementedError:
        print(f"{name:<23} NotImplementedError")

# %% [markdown]
# ### Exercise 2.2: sharded_log_softmax
#
# Llama 3 knows 128,000 tokens ([table 3 of its
# report](https://arxiv.org/abs/2407.21783)), so the logits of 8,192 positions take 4.2
# GB in float32. Megatron-LM never builds them in one place: its output layer is split
# over the vocabulary, and a **vocabulary-parallel cross-entropy** ([Shoeybi et al.,
# 2019](https://arxiv.org/abs/1909.08053)) needs a few numbers per position from the
# other devices. This exercise is its core.
#
# Write `sharded_log_softmax(logits, axis_name)`. A device holds `(B, C / D)` of the
# `(B, C)` logits, and returns the same part of the log-softmax over all `C` classes.
#
# ```python
# # 8 devices, 128 classes: on each, logits is f32[4, 16]
# sharded_log_softmax(logits, "i")  # f32[4, 16], this part of jax.nn.log_softmax
# ```
#
# - [log-softmax of all] The result is this device's part of the row-wise log-softmax
#   over the classes of all devices.
# - [logits stay local] What a device sends for a row does not depend on how many
#   classes it holds.
# - [no overflow] Logits of ±10,000 give finite results, right to two decimals.
# - [differentiable] `jax.grad` of `-(targets * result).sum()`, this device's part of a
#   cross-entropy, is the softmax minus the one-hot targets. (You add nothing: the
#   derivative of your `psum` is a `psum`, which collects the other devices' shares.)


# %% exercise="sharded_log_softmax" minutes=15 difficulty=2
def sharded_log_softmax(logits, axis_name):
    """Computes the log-softmax over a class axis that is split over the devices.

    Args:
        logits: f32[B, C/D], this device's classes, all finite.
        axis_name: the name of the devices' axis.

    Returns:
        f32[B, C/D], this device's part of the log-softmax over all C classes.
    """
    ### BEGIN SOLUTION
    # The log-sum-exp of one device, with each reduction finished by a collective. The
    # maximum cancels out of the result, so its derivative is not needed, and pmax has
    # none. One may also combine the devices' own log-sum-exps: one number per row.
    own = lax.stop_gradient(logits).max(axis=-1, keepdims=True)
    shifted = logits - lax.pmax(own, axis_name)
    total = lax.psum(jnp.exp(shifted).sum(axis=-1, keepdims=True), axis_name)
    return shifted - jnp.log(total)
    ### END SOLUTION


# %% [markdown] hints="sharded_log_softmax"
# - On one device: subtract the row's maximum, then the logarithm of the sum of the
#   exponentials. `keepdims=True` lets a row's numbers broadcast.
# - Both the maximum and the sum go over all devices: `lax.pmax` and `lax.psum`.
# - `jax.grad` must not differentiate `pmax`: give `pmax` the maximum of
#   `lax.stop_gradient(logits)`.

# %% check="sharded_log_softmax"

# %% [markdown] built="sharded_log_softmax"
# Forward, two numbers for each position are all-reduced, however large the vocabulary is.


# %%
def by_columns(array):  # a block of columns for each device
    return np.stack(np.split(array, num_devices, axis=1))


@needs("sharded_log_softmax")
def _():
    rng = np.random.default_rng(2)
    x = np.float32(rng.normal(size=(64, 16)))  # the output of the layers before
    w = np.float32(rng.normal(size=(16, 8 * num_devices)))
    logits = x @ w
    target = np.eye(w.shape[1], dtype=np.float32)[logits.argmax(axis=1)]
    one_device = -(target * jax.nn.log_softmax(logits)).sum() / len(x)
    parts = spmd(
        lambda w, target: -(target * sharded_log_softmax(x @ w, "i")).sum() / len(x)
    )(by_columns(w), by_columns(target))
    print("parts of the cross-entropy:", *(f"{part:.3f}" for part in parts))
    print(f"their sum: {parts.sum():.3f}, on one device: {one_device:.3f}")
    print(f"logits on each device: {len(x)} x {w.shape[1] // num_devices}")


# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above again.

# %% [markdown]
# ## 3. Moving: gather, scatter, permute, exchange
#
# The other collectives move blocks. `lax.all_gather` gives every device all blocks.
# `lax.psum_scatter` (a **reduce-scatter**) sums like `psum`, but device `d` keeps only
# the `d`-th piece of the sum. With `tiled=True` blocks are joined, and cut, along their
# first axis. Without it, gathering adds a new first axis of size D, and scattering
# removes one.
#
# **Predict, then run.** Below, `all_gather` starts with one number on each device,
# `psum_scatter` with eight. With how many does a device end?

# %%
guess = None  # your prediction for `psum_scatter`
wide = np.float32(10 * numbers[:, None] + numbers)  # f32[8, 8]
gathered = spmd(lambda x: lax.all_gather(x, "i", tiled=True))(wide[:, :1])
draw_collective('lax.all_gather(x, "i", tiled=True)', wide[:, :1], gathered)
scattered = spmd(lambda x: lax.psum_scatter(x, "i"))(wide)
draw_collective('lax.psum_scatter(x, "i")', wide, scattered)
prediction("numbers on a device after psum_scatter", scattered[0].size, guess)

# %% [markdown]
# With eight after the gather, with one after the scatter.
#
# **An all-reduce is a reduce-scatter and an all-gather.** Between the two halves a
# device needs only its own piece.


# %%
def scatter_then_gather(x):
    piece = lax.psum_scatter(x, "i", tiled=True)
    return lax.all_gather(piece, "i", tiled=True)


same = spmd(scatter_then_gather)(wide) == spmd(lambda x: lax.psum(x, "i"))(wide)
print("same as psum:", bool(same.all()))

# %% [markdown]
# `lax.ppermute` sends a block to at most one other device. A list of (from, to) pairs
# says which: plain numbers, the same full list on every device. A device to which
# nobody sends gets zeros.
#
# `lax.all_to_all` sends a different piece to every device. Its two numbers say along
# which axis a block is cut, and along which the arriving pieces are joined: below, a
# column of four numbers is cut into single numbers, which are joined to a column again.

# %%
pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
moved = spmd(lambda x: lax.ppermute(x, "i", pairs))(wide[:, :2])
draw_collective('lax.ppermute(x, "i", pairs)', wide[:, :2], moved)
columns = wide[:few, :few]  # on each of four devices a column of four numbers
exchange = spmd(lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), small)
draw_collective('lax.all_to_all(x, "i", 0, 0, tiled=True)', columns, exchange(columns))

# %% [markdown]
# **What they cost.** D devices put in a block of `n` bytes each, and no switch adds them
# up (in machines of H100s, NVLS can):
#
# | `lax.` | XLA's name | a device ends with | each device sends |
# |---|---|---|---|
# | `psum`, `pmean`, `pmax`, `pmin` | all-reduce | the combined block | `2 n (D-1) / D` |
# | `psum_scatter` | reduce-scatter | a piece of the sum | `n (D-1) / D` |
# | `all_gather` | all-gather | all blocks | `n (D-1)` |
# | `all_to_all` | all-to-all | a piece from each | `n (D-1) / D` |
# | `ppermute` | collective-permute | another's block | `n` |
#
# Mind that `n` is the **input** block of one device. For a gather, NCCL and [the scaling
# book](https://jax-ml.github.io/scaling-book/sharding/) count the result, `D n`.

# %% [markdown]
# ### Exercise 2.3: reshard_rows_to_columns
#
# A Transformer on a long text is split by *positions* in most layers, and by *heads* in
# attention, where every position has to see all others. DeepSpeed-Ulysses ([Jacobs et
# al., 2023](https://arxiv.org/abs/2309.14509)), a kind of **sequence parallelism**,
# goes from one layout to the other and back in each layer. For a million positions of
# Llama 3 8B, each of eight devices sends 0.9 GB in an `all_to_all`, and eight times as
# much in a gather.
#
# Write `reshard_rows_to_columns(x, axis_name)`. A matrix `(R, C)` is split by rows;
# each device holds `(R / D, C)`. Return this device's part of the matrix split by
# columns, `(R, C / D)`. `C` is a multiple of `D`.
#
# ```python
# # 8 devices, a matrix of 16 x 24: on each, x is f32[2, 24]
# reshard_rows_to_columns(x, "i")  # f32[16, 3]; on device 0 columns 0 to 2
# ```
#
# - [split by columns] Device `d` ends with the `d`-th `C / D` columns of all rows.
# - [one all_to_all] All that is sent is one `all_to_all` of the block: no device ever
#   holds the full matrix.
# - [any dtype] A block of any dtype travels, and ends, in its own dtype.


# %% exercise="reshard_rows_to_columns" minutes=10 difficulty=1
def reshard_rows_to_columns(x, axis_name):
    """Turns a split by rows into a split by columns.

    Args:
        x: (R/D, C), this device's rows; C is divisible by D.
        axis_name: the name of the devices' axis, which has D devices.

    Returns:
        (R, C/D), this device's columns.
    """
    ### BEGIN SOLUTION
    # Cut columns, join rows: with tiled=True all_to_all does both, and there is nothing
    # left to transpose. Without it, one reshapes before and moves axes after. Under jit
    # (lesson 4) one would only state the new sharding, and XLA would find this.
    return lax.all_to_all(x, axis_name, split_axis=1, concat_axis=0, tiled=True)
    ### END SOLUTION


# %% [markdown] hints="reshard_rows_to_columns"
# - `all_to_all` cuts `split_axis` into D pieces, sends one to each device, and joins
#   what arrives along `concat_axis`.
# - Which axis of your rows do you cut, and along which are pieces of *rows* joined?
#   `tiled=True` keeps the number of axes.

# %% check="reshard_rows_to_columns"

# %% [markdown] built="reshard_rows_to_columns"
# Every multi-dimensional Fourier transform on a cluster rests on this exchange, too.


# %%
@needs("reshard_rows_to_columns")
def _():
    rows = wide[:few, None, :few]  # a row of four columns on each device
    to_columns = spmd(lambda x: reshard_rows_to_columns(x, "i"), small)
    draw_collective('reshard_rows_to_columns(x, "i")', rows, to_columns(rows))

    def transform(x):  # along the rows, which a device has in full, then the columns
        columns = reshard_rows_to_columns(jnp.fft.fft(x, axis=1), "i")
        return jnp.fft.fft(columns, axis=0)

    image = np.random.default_rng(0).normal(size=(8 * num_devices, 8 * num_devices))
    found = spmd(transform)(np.float32(image).reshape(num_devices, 8, -1))
    right = np.allclose(np.concatenate(found, axis=1), np.fft.fft2(image), atol=1e-2)
    print("Fourier transform as np.fft.fft2 gives it:", right)


# %% [markdown]
# ## 4. Gradients
#
# The derivatives of most collectives are collectives again. (`collectives(f, x)` traces `f`
# and lists what it runs.)
#
# **Predict, then run.** `all_gather` hands each device's block to all. Which collective
# brings the gradient back to a device's block?


# %%
def gathered_loss(x):
    return (lax.all_gather(x, "i", tiled=True) ** 2).sum()


def exchanged_loss(x):
    return (lax.all_to_all(x, "i", 0, 0, tiled=True) ** 2).sum()


for loss in (gathered_loss, exchanged_loss):
    for collective in collectives(spmd(jax.grad(loss)), wide):
        print(f"{loss.__name__:<15}", collective)

# %% [markdown]
# All devices have used the block, so all their gradients for it are summed, and each
# sum returns to its owner: a reduce-scatter. What an `all_to_all` moved, another moves
# back.
#
# **Which gradient do you get?** Now each device has its own copy of a weight, `d` on
# device `d`, and its own loss, `w ** 2`.
#
# **Predict, then run.** Differentiate the *averaged* loss with respect to a device's
# copy. Do all devices get the same gradient?


# %%
def mean_loss(w):
    return lax.pmean(w**2, "i")


def mean_gradient(w):
    return lax.pmean(jax.grad(lambda w: w**2)(w), "i")


weights = np.float32(numbers)
for name, f, check_vma in (
    ("grad of pmean(loss)", jax.grad(mean_loss), False),
    ("with check_vma=True", jax.grad(mean_loss), True),
    ("pmean of grad(loss)", mean_gradient, False),
):
    print(f"{name}:", np.asarray(spmd(f, check_vma=check_vma)(weights)))

# %% [markdown]
# The average loss is the same number everywhere, but each device asks how it changes with
# *its* copy (`2 d / D`, line 2; line 1 is explained below), and no other device's
# gradient is in the answer. **Averaging losses does not average the gradients** of
# copies. The last line is what training needs: take gradients first, then average them.
# (For weights that `P()` replicates under `check_vma`, both agree: lesson 3.)
#
# **What `check_vma` is.** By default, `shard_map` tracks in the type of each value
# whether it *varies* over the axis ("vma": varying manual axes): `jax.typeof(w)` is
# `float32[]{V:i}`, and that of `lax.psum(w, "i")` is `float32[]`. So JAX could prove
# that a mean is replicated (section 1), and counts the D averages here as one: `2 d /
# D`.
#
# `spmd` and `check` pass `check_vma=False`: all that runs under `pmap` runs here. Then
# `jax.grad` differentiates the *sum* of what all devices return. An averaged loss is in it
# D times, so its gradient is D times as large: `2 d`.
#
# (With `check_vma`, where a loop's total starts as a constant and becomes varying, JAX
# refuses: "carry input and carry output must have equal types". The remedy is
# `jax.lax.pcast(0.0, "i", to="varying")`, `pvary` in JAX 0.7.)

# %% [markdown]
# ## 5. The optimizer's state, an eighth on each device
#
# In plain data parallelism, after the all-reduce every device does the same update:
# Adam's two moments are there eight times.
#
# **ZeRO** ([Rajbhandari et al., 2019](https://arxiv.org/abs/1910.02054)), in its first
# stage, ZeRO-1, puts the update *between* the two halves of the all-reduce. After the
# reduce-scatter device `d` has the mean gradient for the `d`-th piece of the weights.
# It updates that piece, with the only copy of its moments, and the all-gather hands the
# new weights to everybody. That sends not a byte more than the all-reduce. For Llama 3
# 8B with everything in float32 (so gradients take twice the opening's 16 GB), a device
# holds, without activations:
#
# | | weights | gradients | moments | in all |
# |---|---|---|---|---|
# | data parallel | 32 GB | 32 GB | 64 GB | 128 GB |
# | ZeRO-1, 8 devices | 32 GB | 32 GB | 8 GB | **72 GB** |
# | an H100 has | | | | 80 GB |

# %% [markdown]
# ### Exercise 2.4: sharded_update
#
# DeepSpeed calls this `"stage": 1`, Megatron-LM `--use-distributed-optimizer`. You build
# it for SGD with momentum, which has one moment per weight, the velocity.
#
# Write `sharded_update(weights, velocity, grads, axis_name, lr, beta)`. Each device has
# all `weights: (n, ...)`, the gradients of its own batch, `grads: (n, ...)`, and its
# slice of the velocity, `(n / D, ...)`, the `d`-th on device `d`. `n` is a multiple of
# `D`. With `g_d` the `d`-th slice of the mean gradient, device `d`'s new velocity is
# `beta * velocity + g_d`, and its new slice of the weights the old one less `lr` times
# that. It returns `(weights, velocity)`: all of the new weights, and its slice of the
# velocity.
#
# ```python
# # 8 devices: weights, grads: f32[16, 3]; velocity: f32[2, 3]
# sharded_update(weights, velocity, grads, "i", 0.1, 0.9)  # (f32[16, 3], f32[2, 3])
# ```
#
# - [same numbers] Weights and velocity are those of a single device that keeps all of
#   the velocity and sees the mean gradient.
# - [bytes of one all-reduce] One `psum_scatter` and one `all_gather` are all that is
#   sent.
# - [identical replicas] All devices end with the same weights, to the last bit.


# %% exercise="sharded_update" minutes=20 difficulty=2
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
    """
    ### BEGIN SOLUTION
    # The new weights travel, so that replicas agree to the bit: each slice is computed
    # in one place. Gathering the velocity and stepping everywhere sends as much.
    # DeepSpeed and Megatron do this on one flat buffer, which needs no row to divide.
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    total = lax.psum_scatter(grads, axis_name, tiled=True)
    velocity = beta * velocity + total / num_devices
    own = weights.reshape(num_devices, *velocity.shape)[me]
    return lax.all_gather(own - lr * velocity, axis_name, tiled=True), velocity
    ### END SOLUTION


# %% [markdown] hints="sharded_update"
# - `lax.psum_scatter(grads, axis_name, tiled=True)` is this device's slice of the
#   gradients' sum. Then all happens on slices, and the gathering comes last.
# - Your slice of the weights is `weights.reshape(D, len(weights) // D,
#   *weights.shape[1:])[me]`, where `me = lax.axis_index(axis_name)`.
# - Gather what is new and nobody else has: this slice of the new weights.

# %% check="sharded_update"

# %% [markdown] built="sharded_update"
# This is ZeRO-1. ZeRO-3, better known as FSDP, also shards the weights (lesson 4).
# `optax`'s Adam runs on slices as it is; clipping by the global norm needs a `psum` of
# one number.

# %% [markdown]
# Watch your step at work, with `lr = 0.4`: on four devices all weights are 0, and the
# gradients are 1, 2, 4 or 8 times `[1, 2, 3, 4]`.

# %%
from IPython.display import display


@needs("sharded_update")
def _():
    weights, velocity = np.zeros((few, few), np.float32), np.zeros((few, 1), np.float32)
    grads = np.float32([2**d * np.arange(1, few + 1) for d in range(few)])
    step = spmd(lambda *state: sharded_update(*state, "i", 0.4, 0.9), small)
    title = "Your sharded_update"
    display(animate(step, weights, velocity, grads, title=title))


# %% [markdown]
# ## 6. All four in one step
#
# A classifier of words, on padded texts split over the devices, trained by nothing but
# your functions. The logits are resharded by classes just to use your functions: a word
# counts on the device that has its class.
#
# The loss is reduced before `jax.grad`, which section 4 warns against. Here it is right:
# all D devices return the same loss, so each gets D times its own share of the gradient,
# and the mean in `sharded_update` is the sum of all shares.

# %%
rng, classes, tokens = np.random.default_rng(0), 4 * num_devices, 32
x = np.float32(rng.normal(size=(num_devices, tokens, 2 * num_devices)))
true = rng.normal(size=(2 * num_devices, classes))
target = np.eye(classes, dtype=np.float32)[(x @ true).argmax(axis=-1).ravel()]
is_word = (np.arange(tokens) < tokens // (1 + numbers[:, None])).ravel()  # else padding
start = np.zeros(true.shape, np.float32)


@jax.jit
def one_device(w, velocity):
    def loss(w):
        losses = -(target * jax.nn.log_softmax(x.reshape(-1, x.shape[-1]) @ w)).sum(1)
        return jnp.where(is_word, losses, 0).sum() / is_word.sum()

    value, grads = jax.value_and_grad(loss)(w)
    velocity = 0.9 * velocity + grads
    return w - 0.5 * velocity, velocity, value


# %%
def loss_of_words(w, x, target):
    logits = reshard_rows_to_columns(x @ w, "i")  # all words, this device's classes
    losses = -(target * sharded_log_softmax(logits, "i")).sum(axis=1)
    return masked_mean(losses, is_word & (target.sum(axis=1) > 0), "i")


def your_step(w, velocity, x, target):
    loss, grads = jax.value_and_grad(loss_of_words)(w, x, target)
    return *sharded_update(w, velocity, grads, "i", 0.5, 0.9), loss


# %%
@needs(
    "masked_mean", "sharded_log_softmax", "reshard_rows_to_columns", "sharded_update"
)
def _():
    step, alone = spmd(your_step), (start, np.zeros_like(start))
    ours = np.stack([start] * num_devices), np.zeros((num_devices, 2, classes))
    losses = {"one device": [], f"yours, on {num_devices}": []}
    for _ in range(50):
        *alone, loss = one_device(*alone)
        *ours, copies = step(*ours, x, by_columns(target))
        for curve, value in zip(losses.values(), (loss, copies[0]), strict=True):
            curve.append(float(value))
    draw_losses(losses, "loss", "Trained by your four functions")
    print(f"velocity: {ours[1][0].nbytes:,} of {start.nbytes:,} bytes on each device")


# %% [markdown]
# Two lines, one curve, although no device ever held all of the logits or the velocity.
#
# **How long does it take?** The bytes of your step, for 16 GB of gradients and as much of
# weights, travel over [NVLink](https://www.nvidia.com/en-us/data-center/h100/) inside a
# machine of H100s, or over network cards between eight machines with one GPU each.
# Computing a step of Llama 3 8B on 8,192 tokens per GPU takes about a second (6 x 8
# billion x 8,192 operations, at 400 TFLOP/s).
#
# <!-- NVIDIA's data sheet of the H100 SXM, read in November 2026: NVLink 900 GB/s in both
# directions together, 989 TFLOP/s in bfloat16 without sparsity, of which 40 % are taken
# here. A network card of 400 Gbit/s: 400 / 8. -->

# %%
links = {
    "NVLink of an H100": 450e9,
    "a 400 Gbit/s network card": 50e9,
}  # bytes/s, one way


@needs("sharded_update")
def _():
    weights = np.zeros((num_devices, 16 * num_devices), np.float32)
    velocity = np.zeros((num_devices, 16), np.float32)
    step = spmd(lambda *state: sharded_update(*state, "i", 0.1, 0.9))
    sends = collectives(step, weights, velocity, weights)
    share = sum(each.bytes_moved for each in sends) / weights[0].nbytes
    print(f"Your step sends {share:.2f} bytes for each byte of gradients.")
    for name, bandwidth in links.items():
        print(f"16 GB over {name}: {16e9 * share / bandwidth:.3f} s")
    state = 64 * velocity[0].nbytes / weights[0].nbytes
    print(f"Adam's state: 64 GB, of which each device keeps {state:.0f}")


# %% [markdown]
# On eight GPUs, 62 milliseconds inside a machine are a footnote; over a network card the
# same bytes take half as long as the computing. There, one hides them behind the backward
# pass, or sends less. And no: of Adam's 64 GB, a GPU need keep only 8.

# %% [markdown]
# ## Recap
#
# - `psum`, `pmean`, `pmax`: all-reduce. `psum_scatter`, `all_gather`: its two halves.
#   `ppermute`, `all_to_all`: blocks on the move.
# - Sum numerators and denominators; the mean of means is a different number.
# - ZeRO updates between the two halves of an all-reduce, each device its own slice.

# %% [markdown]
# ## Three questions
#
# **1. `x` is `f32[1024]` on each of 8 devices. How many numbers does a device hold
# after `lax.psum_scatter(x, "i", tiled=True)`?**
#
# <details><summary>1024</summary>
#
# That is `psum`.
#
# </details>
# <details><summary>128</summary>
#
# Right: an eighth of the sum's entries.
#
# </details>
# <details><summary>8192</summary>
#
# That is `all_gather`.
#
# </details>

# %% [markdown]
# **2. Each device has its own copy of equal weights, and its own batch. The loss is
# averaged with `pmean` before `jax.grad`, and each device steps by its own gradient. What
# happens to the copies?**
#
# <details><summary>They stay equal: the loss is the same everywhere</summary>
#
# The losses are equal, but not the gradients with respect to each copy.
#
# </details>
# <details><summary>They drift apart</summary>
#
# Right. Each gets its own gradient (section 4). Average the gradients.
#
# </details>
# <details><summary>JAX refuses</summary>
#
# It is a valid program.
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
# Right: one slice of D.
#
# </details>
# <details><summary>weights after the step</summary>
#
# They are gathered. Lesson 4 shards them, too.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# [JAX's guide to shard_map](https://docs.jax.dev/en/latest/201/shard-map.html) has
# these collectives with their pictures; NVIDIA's NCCL and every profiler call them
# AllReduce, AllGather, ReduceScatter.
#
# **Next**: [lesson 3](03_pmap_training.ipynb), training with several devices.

# %% [markdown]
# **Your score.** Run the scorecard again after the second part. Save the notebook, then
# run `make grade` in a terminal: it grades the saved file as a teacher would.

# %% scorecard=true

# %% [markdown]
# ## Going further
#
# **28 GB from each GPU in every step: must it be so much?** You build the ring behind an
# all-reduce, one that sends a quarter of float32's bytes, and a layer that sends sums
# instead of a batch; together they train a network. First run all cells above again.

# %% [markdown]
# ## 7. The ring
#
# How can an all-reduce send less than `2 n` bytes, however many devices there are? Cut
# the array into D chunks, and let every device send **one chunk** to its right
# neighbour, again and again. What arrives is added to the chunk of the same number.
# Below, four devices hold ones, so that a value says how many devices' blocks it
# contains.

# %%
parts = [np.ones((4, 4))]  # device, chunk
for send in range(1, 4):
    parts.append(parts[-1] + send * np.roll(np.eye(4), -send, axis=1))
titles = ["at first", *(f"after send {number}" for number in range(1, 4))]
draw_steps(parts, titles, complete=4, row="chunk", ring=True)

# %% [markdown]
# These three sends are a reduce-scatter: each device holds one finished chunk (device `d`
# chunk `d + 1`, not `d` as after `psum_scatter`). Three more hand the finished chunks on:
# an all-gather. Number the sends through both halves, from `s = 0` (the picture's send 1)
# to `2 D - 3`: in each, device `d` sends chunk `d - s` and receives chunk `d - s - 1`,
# modulo D.

# %% [markdown]
# ### Exercise 2.5: ring_all_reduce
#
# Baidu brought the **ring all-reduce** to deep learning in 2017;
# [Horovod](https://arxiv.org/abs/1802.05799) and NCCL made it the way to average
# gradients. For the 16 GB at the beginning of this lesson, each GPU sends 28 GB with
# eight GPUs, and 32 GB with a thousand.
#
# Write `ring_all_reduce(x, axis_name)`: the sum of `x: (n, ...)` over the devices, on
# all of them, by `lax.ppermute` alone. `n` is a multiple of D; `x` holds floats or ints
# whose sums fit its dtype.
#
# ```python
# # 8 devices: x is f32[16, 3] on each
# ring_all_reduce(x, "i")  # f32[16, 3]: their sum, after 14 sends of f32[2, 3]
# ```
#
# - [sum of all] The result is the sum over all devices, with the shape and dtype of
#   `x`.
# - [one chunk per send] There are `2 (D - 1)` sends, each of `n / D` rows, and no other
#   communication.
# - [identical replicas] All devices end with the same bits.


# %% exercise="ring_all_reduce" minutes=25 difficulty=3
def ring_all_reduce(x, axis_name):
    """Sums over the devices by `lax.ppermute` alone.

    Args:
        x: (n, ...), this device's block; n is divisible by D.
        axis_name: the name of the devices' axis, which has D devices.

    Returns:
        The sum of all devices' blocks, of x's shape and dtype.
    """
    ### BEGIN SOLUTION
    # One loop for both halves: only what happens to the arriving chunk differs. Handing
    # on *finished* sums makes all bits equal: sums in a different order would differ.
    # NCCL runs several such rings at once, and both ways round.
    num_devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
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
#   `d`. It is traced, and may still index the array: `chunks[(d - s) % D]`.
# - `chunks.at[place].add(arrived)` and `chunks.at[place].set(arrived)` return the
#   changed array.
# - What arrives is added to chunk `(d - s - 1) % D` in the first `D - 1` sends, and
#   replaces it later.

# %% check="ring_all_reduce"

# %% [markdown] built="ring_all_reduce"
# This is what `lax.psum` means on a ring of links. One writes it by hand where
# computation can run *while* a chunk travels: lesson 4's collective matmul, and ring
# attention below.

# %% [markdown]
# Your ring on four devices, which hold 1, 2, 4 and 8 in all of their chunks: a finished
# sum is 15.


# %%
@needs("ring_all_reduce")
def _():
    x = np.repeat(2 ** np.arange(few, dtype=np.int32)[:, None], few, axis=1)
    ring = spmd(lambda x: ring_all_reduce(x, "i"), small)
    display(animate(ring, x, title="Your ring_all_reduce"))
    messages = 2 * (num_devices - 1)
    for name, bandwidth in links.items():
        for num_bytes in (16e9, 4):  # gradients, or one number
            # Each message takes 5 microseconds, and the time of its bytes.
            seconds = messages * (5e-6 + num_bytes / num_devices / bandwidth)
            print(f"{num_bytes:>14,.0f} bytes over {name}: {seconds:.6f} s")


# %% [markdown]
# At 5 microseconds for each of 14 messages, a single number takes 70 on either link,
# nearly all of it latency. So for small arrays libraries use *trees* of pairs, which need
# only `2 log2(D)` messages, each of all `n` bytes.

# %% [markdown]
# ## 8. Eight bits
#
# Gradients are noisy, so why send 32 bits of each? Rounded to whole numbers from -127
# to 127, with one scale for all, each is off by at most `largest / 254`.
#
# **Predict, then run.** Each of eight devices holds 100, as int8. What is their `psum`?


# %%
guess = None  # your prediction


def to_int8(x, largest):
    """Rounds numbers, none larger in size than `largest`, to -127 ... 127."""
    return jnp.round(127 * x / jnp.where(largest > 0, largest, 1)).astype(jnp.int8)


def from_int8(q, largest):
    """Turns rounded numbers into f32 again."""
    return q.astype(jnp.float32) * (largest / 127)


gradient = np.float32([0.5, -0.13, 0.002])
rounded = to_int8(gradient, 0.5)
print("rounded: ", *rounded)
print("and back:", *(f"{number:.3f}" for number in from_int8(rounded, 0.5)))
hundreds = np.full((num_devices, 1), 100, np.int8)
total = int(spmd(lambda q: lax.psum(q, "i"))(hundreds)[0, 0])
print("psum of 100s in int8:", total)
prediction("the psum of eight 100s in int8", total, guess)

# %% [markdown]
# **Common mistake: sums in eight bits.** 800 does not fit; what is left is 800 - 3 x
# 256 = 32, without a warning. A `psum` of int32 is exact, but sends 32 bits again.

# %% [markdown]
# ### Exercise 2.6: int8_all_reduce
#
# **ZeRO++** ([Wang et al., 2023](https://arxiv.org/abs/2306.10209)) averages gradients in
# this way, with a scale for each block, and Google's int8 all-reduce in XLA is 1.8 times
# as fast as one in bfloat16 ([EQuARX, 2025](https://arxiv.org/abs/2506.17615)).
#
# Write `int8_all_reduce(x, axis_name)`: the approximate sum of `x: (n,)` over the
# devices, on all of them. `n` is a multiple of D. In both halves of this all-reduce,
# only int8 numbers and a few scales travel, and a device adds, in float32, pieces that
# have arrived. Let `m` be the largest `|x|` on any device.
#
# ```python
# # 8 devices: x is f32[4096] on each, between -1 and 1
# int8_all_reduce(x, "i")  # f32[4096]: their sum, off by 8 / 127 at most
# ```
#
# - [error bound] Each entry is within `D * m / 127` of the exact sum.
# - [a quarter of the bytes] For 4,096 numbers or more, a device sends at most 26 % of
#   the bytes that `lax.psum` sends for `x`.
# - [identical replicas] All devices end with the same bits.
#
# <!-- Abstract of EQuARX, read in November 2026: "1.8X speedup over baseline BF16
# AllReduce across various network topologies", on TPUs. -->


# %% exercise="int8_all_reduce" minutes=20 difficulty=2
def int8_all_reduce(x, axis_name):
    """Sums over the devices, approximately, and sends int8 numbers.

    Args:
        x: f32[n], this device's block; n is a multiple of D.
        axis_name: the name of the devices' axis, which has D devices.

    Returns:
        f32[n], nearly the sum of all devices' blocks.
    """
    ### BEGIN SOLUTION
    # The sum is taken in f32, between two rounds of int8. A common scale costs one
    # number; a scale for each block of 256 or so, as in ZeRO++ and EQuARX, rounds small
    # gradients better. Some add what rounding lost to the next step's gradient.
    num_devices = lax.axis_size(axis_name)
    largest = lax.pmax(jnp.abs(x).max(), axis_name)
    pieces = to_int8(x, largest).reshape(num_devices, -1)
    arrived = lax.all_to_all(pieces, axis_name, split_axis=0, concat_axis=0)
    piece = from_int8(arrived, largest).sum(axis=0)
    largest = num_devices * largest  # no sum is larger
    rounded = to_int8(piece, largest)
    return from_int8(lax.all_gather(rounded, axis_name, tiled=True), largest)
    ### END SOLUTION


# %% [markdown] hints="int8_all_reduce"
# - Let all devices use the same scale: `largest = lax.pmax(jnp.abs(x).max(),
#   axis_name)`.
# - `psum_scatter` would add up int8 numbers. `all_to_all` only moves them: device `d`
#   gets everybody's `d`-th piece, turns the pieces into f32, and adds.
# - The sums are as large as `D * largest`. Round them with this scale, `all_gather` the
#   int8 numbers, and turn them back into f32 on every device.

# %% check="int8_all_reduce"

# %% [markdown] built="int8_all_reduce"
# Against bfloat16 gradients the factor is 2, not 4. One may also send less often, as in
# [local SGD](https://arxiv.org/abs/1805.09767).


# %%
@needs("int8_all_reduce")
def _():
    rng = np.random.default_rng(0)
    x = np.float32(rng.normal(size=(num_devices, 4096 * num_devices)))
    exact = x.sum(axis=0, dtype=np.float64)
    bound = num_devices * np.abs(x).max() / 127
    ways = {"psum": lambda x: lax.psum(x, "i")}
    ways["int8_all_reduce"] = lambda x: int8_all_reduce(x, "i")
    for name, way in ways.items():
        sent = sum(each.bytes_moved for each in collectives(spmd(way), x))
        error = np.abs(np.asarray(spmd(way)(x)) - exact).max()
        print(f"{name:<16}{sent:>10,.0f} bytes, error at most {error:.2f}")
    print(f"allowed: {bound:.2f}; the sums themselves: up to {np.abs(exact).max():.1f}")


# %% [markdown]
# ## 9. Statistics of the whole batch
#
# BatchNorm normalises each feature by the batch's mean and variance. Split a batch of
# 32 images over 16 devices, and each device normalises by the statistics of *two*: it
# is now a different model, and usually a worse one. **Synchronised** statistics are the
# remedy: PyTorch's `SyncBatchNorm`, Flax's `BatchNorm(axis_name="i")`.

# %% [markdown]
# ### Exercise 2.7: sync_batch_norm
#
# Write `sync_batch_norm(x, axis_name, eps)`. It gets this device's rows, `x: (B, F)`,
# as many on each device, and returns `(y, mean, var)`: mean and variance (as `jnp.var`)
# of each feature over the rows of all devices, and for this device's rows `y = (x -
# mean) / sqrt(var + eps)`.
#
# ```python
# # 8 devices: x is f32[16, 3] on each, 128 rows in all
# sync_batch_norm(x, "i", 1e-5)  # (f32[16, 3], f32[3], f32[3])
# ```
#
# - [statistics of all rows] `y`, `mean` and `var` are those of one device that holds
#   all rows.
# - [rows stay local] How much a device sends does not depend on how many rows it has.
# - [accurate far from 0] `var` is right to 2 % even where a feature's mean is far
#   larger than its spread: 10,000 ± 1, say.


# %% exercise="sync_batch_norm" minutes=15 difficulty=2
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
    # Two rounds, since the distances are from the common mean. Flax makes one round of
    # E[x^2] - E[x]^2 instead, which is faster and loses digits far from 0; one round of
    # each device's own mean and variance, gathered and combined, is fast and exact.
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean(((x - mean) ** 2).mean(axis=0), axis_name)
    return (x - mean) / jnp.sqrt(var + eps), mean, var
    ### END SOLUTION


# %% [markdown] hints="sync_batch_norm"
# - All devices hold equally many rows, so here a mean of means is right.
# - Two rounds: first everybody's mean, then everybody's mean squared
#   distance from the overall mean.

# %% check="sync_batch_norm"

# %% [markdown] built="sync_batch_norm"
# Reducing `2 F` numbers instead of sending `B x F` is this lesson's pattern: reduce
# first, then communicate.


# %%
@needs("sync_batch_norm")
def _():
    x = np.float32(np.random.default_rng(0).normal(size=(num_devices, 2, 64)))
    rows = x.reshape(-1, 64)
    right = (x - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0) + 1e-5)
    alone = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    found = spmd(lambda x: sync_batch_norm(x, "i", 1e-5)[0])(x)
    print("Two images on each device. Distance from one device's features, on average:")
    print(f"  each device by its own two images: {np.abs(alone - right).mean():.2f}")
    print(f"  by your sync_batch_norm:           {np.abs(found - right).mean():.2f}")
    print("Of two images, a feature becomes -1 and 1. Three features, in pairs:")
    print("  own: ", *(f"{value:5.2f}" for value in alone[0, :, :3].T.ravel()))
    print("  sync:", *(f"{value:5.2f}" for value in found[0, :, :3].T.ravel()))


# %% [markdown]
# ## 10. Train with fewer bytes
#
# Does a network notice? A layer with your batch statistics, its gradients summed by
# your ring or in eight bits, beside one device that has all rows:


# %%
width = 4 * num_devices


def loss_of(params, x, y, normalised):  # of a layer of `width` features and an output
    w, out = params[:-width].reshape(8, width), params[-width:]
    return ((jnp.tanh(normalised(x @ w)) @ out - y) ** 2).mean()


def losses_of(step, params, x, y):
    losses = []
    for _ in range(60):
        params, loss = step(params, x, y)
        losses.append(float(jnp.mean(loss)))
    return losses


@jax.jit
def step_alone(params, x, y):
    def normalised(hidden):
        return (hidden - hidden.mean(axis=0)) / jnp.sqrt(hidden.var(axis=0) + 1e-5)

    loss, grads = jax.value_and_grad(loss_of)(params, x, y, normalised)
    return params - 0.1 * grads, loss


# %%
@needs("ring_all_reduce", "int8_all_reduce", "sync_batch_norm")
def _():
    rng = np.random.default_rng(0)
    x = np.float32(rng.normal(size=(num_devices, 8, 8)))
    y = np.sin(x[..., 0]) + x[..., 1] * x[..., 2]
    params = np.float32(rng.normal(size=9 * width) / 3)
    curves = {"one device": losses_of(step_alone, params, x.reshape(-1, 8), y.ravel())}
    for all_reduce in (ring_all_reduce, int8_all_reduce):

        def step(params, x, y, all_reduce=all_reduce):
            def normalised(hidden):
                return sync_batch_norm(hidden, "i", 1e-5)[0]

            loss, grads = jax.value_and_grad(loss_of)(params, x, y, normalised)
            return params - 0.1 * all_reduce(grads, "i") / num_devices, loss

        given = np.stack([params] * num_devices), x, y
        curves[all_reduce.__name__] = losses_of(spmd(step), *given)
        sums = collectives(spmd(lambda grads, f=all_reduce: f(grads, "i")), given[0])
        sent = sum(each.bytes_moved for each in sums)
        print(f"{all_reduce.__name__}: {sent:,.0f} bytes of gradients from each device")
    draw_losses(curves, "loss", "Your layer, your sums")


# %% [markdown]
# It does not, for 288 weights: three curves, one line. And the 28 GB of bfloat16 need not
# be so much: in eight bits they are 14.

# %% [markdown]
# ## Bonus: attention and experts
#
# **Attention in a ring.** The keys, values and activations of a million positions outgrow
# one device. (Their 10^12 scores are never stored: FlashAttention computes them in
# blocks.) So the *positions* are split over the devices. Queries stay; keys and values
# travel around the ring, and each device adds what the block at hand contributes to its
# own rows.
#
# A 1 in part `b` below: the device has added block `b`.

# %%
parts = np.eye(4)  # device, block: at first each device adds its own
states = [parts]
for _ in range(3):
    states.append(np.maximum(states[-1], np.roll(states[-1], 1, axis=0)))
titles = ["at first", *(f"after send {number}" for number in range(1, 4))]
draw_steps(states, titles, complete=1, row="part", ring=True)

# %% [markdown]
# A softmax subtracts its row's largest score, which no single block knows. So a device
# keeps, for each row, the largest score **so far**, the sum of `exp(score - largest)`,
# and the values summed with the same weights. When a larger score comes, both sums are
# multiplied by `exp(old - new)`. This is the **online softmax** of FlashAttention.
#
# **Predict, then run.** A row's scores come in two blocks, below. By about how much is
# the first sum multiplied: 1/3, 1/7 or 1/20?

# %%
blocks = np.float64([[1000, 1001], [1003, 1002]])
first, second = blocks.max(axis=1)
sums = np.exp(blocks - blocks.max(axis=1, keepdims=True)).sum(axis=1)
largest = max(first, second)
total = sums[0] * np.exp(first - largest) + sums[1] * np.exp(second - largest)
print(f"the first sum is multiplied by {np.exp(first - largest):.3f}")
print("as of all four:", np.isclose(total, np.exp(blocks - blocks.max()).sum()))

# %% [markdown]
# ### Exercise 2.8: ring_attention
#
# **Ring attention** ([Liu et al., 2023](https://arxiv.org/abs/2310.01889)) helped
# context windows grow to a million positions: twice the devices, twice the text, and
# the same memory on each.
#
# Write `ring_attention(q, k, v, axis_name)`. A device has N of the D N positions: `q,
# k: (N, F)` and `v: (N, C)`. It returns its `(N, C)` rows of `softmax(q @ k.T /
# sqrt(F)) @ v` over the keys and values of *all* devices. There is no mask. This
# device's own block comes first.
#
# ```python
# # 8 devices, 72 positions: q, k: f32[9, 10] and v: f32[9, 2] on each
# ring_attention(q, k, v, "i")  # f32[9, 2]
# ```
#
# - [exact attention] The result is this device's rows of the attention over all
#   positions.
# - [nothing is stacked] No array grows with the number of devices: keys, values, scores
#   or results of several blocks are never stacked. Scores are not kept for later.
# - [only keys and values travel] A device sends `D - 1` blocks of keys and of values by
#   `lax.ppermute`, and nothing else. (A `lax` loop of D rounds that sends in each of
#   them sends once too often.)
# - [no overflow] Scores of ±10,000 (after the division by `sqrt(F)`) give finite, right
#   results.


# %% exercise="ring_attention" minutes=30 difficulty=3
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
    # The own block comes first, so that D - 1 sends suffice. -inf for "no score yet"
    # makes the first correction exp(-inf) = 0, without a special case. Production code
    # starts the next ppermute before it works on this block (XLA overlaps the two).
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
# - `lax.ppermute((k, v), axis_name, ring)` sends both; make `ring`, the list of pairs,
#   from D. Before the first block nothing is sent.
# - Start with `largest, total, weighted = -jnp.inf, 0, 0`. Of each block's scores:
#   `highest = jnp.maximum(largest, scores.max(axis=1, keepdims=True))`.
# - `weighted` sums `powers @ v` as `total` sums the powers. Both are multiplied by
#   `jnp.exp(largest - highest)` before a block is added; divide at the end.

# %% check="ring_attention"

# %% [markdown] built="ring_attention"
# Under a *causal* mask, devices with early positions have least to do: give each an early
# and a late piece of the text.


# %%
@needs("ring_attention")
def _():
    q, k, v = np.float32(np.random.default_rng(0).normal(size=(3, 512, 16)))
    exact = jax.nn.softmax(q @ k.T / 4) @ v
    print("512 positions, 16 numbers in each query, key and value.")
    for count in sorted({1, few, num_devices}):
        parts = [rows.reshape(count, -1, 16) for rows in (q, k, v)]
        seen = observe(ring_attention, *parts, "i", axis="i", traced=True)
        largest = max(np.prod(s) for s in seen.array_shapes if s != parts[0].shape)
        sent = sum(each.bytes_moved for each in seen.collectives) / 1024
        error = np.abs(np.reshape(seen.value, exact.shape) - exact).max()
        is_exact = "exact" if error < 1e-4 else "not exact"
        print(f"devices: {count}, largest array: {largest:>7,} numbers, ", end="")
        print(f"sent: {sent:>2.0f} KiB, {is_exact}")


# %% [markdown]
# **A mixture of experts.** Of many small networks, the experts, each token uses one,
# which the model chooses. In **expert parallelism** expert `d` is on device `d`; tokens
# travel there by an `all_to_all`, results back by another. (Without `tiled=True`, as
# below, the cut axis must have size D.)
#
# A compiled program's shapes cannot depend on what tokens choose. So each device has
# `capacity` **slots** for each expert. Its tokens take them in the order of their rows;
# empty slots travel as zeros, and a token that finds no slot is **dropped**.
#
# **Predict, then run.** Device 0 has tokens 1 to 4, device 1 tokens 11 to 14, and so on;
# `expert` says what they choose. With two slots per expert, which tokens are dropped?

# %%
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
arrived = spmd(lambda x: lax.all_to_all(x, "i", 0, 0), small)(filled)
draw_collective('lax.all_to_all(x, "i", 0, 0)', filled, arrived)

# %% [markdown]
# Grey zeros are empty slots; 4, 23 and 24 were dropped. A second `all_to_all` takes
# results back to the same row and slot.

# %% [markdown]
# ### Exercise 2.9: expert_layer
#
# Switch Transformers ([Fedus et al., 2021](https://arxiv.org/abs/2101.03961)) brought
# this to models of up to 1.6 trillion parameters.
#
# Write `expert_layer(params, x, expert, capacity, axis_name)`. Device `d` has expert
# `d`, a layer `{"w": (F, C), "b": (C,)}`; tokens `x: (B, F)`; and the number of the
# expert that each of them chose, `expert: (B,)`. It returns `(B, C)`: each token's row
# holds `tanh(token @ w + b)`, with the `w` and `b` of its expert. Of its tokens that
# chose the same expert, a device sends the first `capacity` and drops the others.
#
# ```python
# # 8 devices: w: f32[5, 3], b: f32[3]; x: f32[12, 5], expert: i32[12] on each
# expert_layer(params, x, expert, 2, "i")  # f32[12, 3]
# ```
#
# - [each token by its expert] A token's row holds its expert's result for it.
# - [two all_to_alls] All that is sent is one `all_to_all` of at most `D x capacity`
#   tokens, and one of as many results.
# - [dropped tokens are 0] The row of a dropped token holds zeros.
# - [arguments stay] It does not modify, delete or donate its arguments.


# %% exercise="expert_layer" minutes=25 difficulty=3
def expert_layer(params, x, expert, capacity, axis_name):
    """Sends each token to the device of its expert, and the result back.

    Args:
        params: {"w": f32[F, C], "b": f32[C]}, this device's expert.
        x: f32[B, F], this device's tokens.
        expert: i32[B], which expert each token chose, from 0 to D - 1.
        capacity: how many tokens a device sends to one expert at most, an int.
        axis_name: the name of the devices' axis, which has D devices.

    Returns:
        f32[B, C], each token's result; 0 where it was dropped.
    """
    ### BEGIN SOLUTION
    # Scatter into slots, and gather from the same slots: JAX's modes "drop" and "fill"
    # do the dropping on both sides. GShard writes both as products with a one-hot mask,
    # which TPUs like; MegaBlocks sorts the tokens, and drops none.
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

# %% [markdown] built="expert_layer"
# GShard runs such layers, too; DeepSeek-V3 drops no token. What is
# missing is the choice: a small matrix scores the experts, each token takes its best few,
# and the result is weighted by the score so that a gradient reaches it.


# %%
@needs("expert_layer")
def _():
    rng = np.random.default_rng(1)
    shapes = {"w": (num_devices, 5, 3), "b": (num_devices, 3)}
    params = {name: np.float32(rng.normal(size=size)) for name, size in shapes.items()}
    x = np.float32(rng.normal(size=(num_devices, 64, 5)))
    even = rng.integers(num_devices, size=(num_devices, 64))
    popular = np.int32(num_devices * rng.random(even.shape) ** 2)
    print(f"{64 * num_devices} tokens, {num_devices} experts. Your layer drops")
    for factor in (1, 2, 4):
        capacity = factor * 64 // num_devices
        layer = spmd(lambda *own, c=capacity: expert_layer(*own, c, "i"))
        lost = [(np.asarray(layer(params, x, e)) == 0).all(-1) for e in (even, popular)]
        shares = [f"{tokens.mean():.0%}" for tokens in lost]
        print(
            f"  {capacity:>2} slots per expert: {shares[0]:>3} of random choices, "
            f"{shares[1]:>3} if some experts are popular"
        )


# %% [markdown]
# Empty slots cost memory and bytes, too. So training adds a small loss that evens the
# choices out, and gives each expert about its even share, or twice that.
