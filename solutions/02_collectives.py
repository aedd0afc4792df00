# %% [markdown]
# # Lesson 2. Collectives: how devices talk
#
# COLAB_BADGE
#
# Llama 3 8B has eight billion parameters. When it trains on eight GPUs, each of them
# ends its backward pass with 16 GB of gradients (in bfloat16), and before any weight
# may change, all eight have to agree on their average. How long does that take? And
# must every GPU keep all of Adam's 64 GB of state, on a card that has 80 GB?
#
# In lesson 1 the replicas drifted apart because nobody averaged anything. Devices talk
# in **collectives**: operations in which all of them take part at once, each with a
# block of its own to put in, each with a result to take away. Five kinds carry nearly
# all of distributed training, from data parallelism to mixtures of experts. You will
# use every one of them for the job that made it famous. At the end of the core, an
# optimizer step of your own, **ZeRO** stage 1, trains a model on eight devices, each of
# which stores an eighth of the optimizer's state.
#
# **After this lesson you can**
#
# - combine and move blocks along a named axis, under `jax.shard_map`;
# - say what each collective leaves on each device, and how many bytes it sends;
# - differentiate through collectives, and shard an optimizer's state;
# - in "Going further": read off a program which collectives it runs, build the ring
#   behind an all-reduce, and predict its time on a real machine.
#
# **You need** lesson 1. **Time**: about 90 minutes for four exercises, with a pause;
# then "Going further", a second part of 95. Its bonus takes 50.

# %% setup=true

# %% [markdown]
# ## 1. An axis with a name
#
# A collective has to know *among which devices* it takes place. In JAX the answer is a
# name. A **mesh** arranges devices along axes with names; ours is a single row of
# eight, and its axis is called `"i"`. Then `jax.shard_map(f, mesh=mesh,
# in_specs=P("i"), out_specs=P("i"))` runs `f` once on every device. `P("i")` says that
# an array's first axis is split over `"i"`: each device gets its block, and the results
# are joined in the same way. Inside `f`, `lax.axis_index("i")` is the number of this
# device, and `lax.psum(x, "i")` the sum of `x` over all of them.
#
# In this lesson every array has one row per device. `shard_map` hands a device its row
# *with* the axis that was split, which now has size 1. The helper `spmd` takes that
# axis off before `f`, and puts it back afterwards, so that `f` is simply what one
# device does with its row.

# %%
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

num_devices = jax.device_count()  # 8, unless you run on real devices
mesh = jax.make_mesh((num_devices,), ("i",), axis_types=(AxisType.Auto,))


def spmd(f, on=None):
    """Runs f on every device of a mesh, each with its row of every argument."""

    def one_device(*blocks):
        rows = jax.tree.map(lambda block: block[0], blocks)
        return jax.tree.map(lambda row: row[None], f(*rows))

    specs = {"in_specs": P("i"), "out_specs": P("i")}
    return jax.jit(jax.shard_map(one_device, mesh=on or mesh, **specs))


# %% [markdown]
# **Predict, then run.** Device `d` holds two numbers, `10 d` and `10 d + 1`. What does
# device 3 hold after `psum`?

# %%
x = np.float32(10 * np.arange(num_devices)[:, None] + np.arange(2))  # f32[8, 2]
draw_collective('lax.psum(x, "i")', x, spmd(lambda x: lax.psum(x, "i"))(x))
draw_collective('lax.pmean(x, "i")', x, spmd(lambda x: lax.pmean(x, "i"))(x))
draw_collective('lax.pmax(x, "i")', x, spmd(lambda x: lax.pmax(x, "i"))(x))
print("axis_index:", spmd(lambda x: lax.axis_index("i"))(x))

# %% [markdown]
# It holds what all the others hold: 280 and 288, the sums over the eight devices. In
# these pictures a value has the colour of the device that it came from; white values
# were combined from several.

# %% [markdown]
# **The same function under `pmap`.** Lesson 1's `pmap` gives the devices' axis a name,
# too, and takes it off a block by itself. The collectives inside are the same to the
# letter, so the functions of this lesson do not care who maps them. They also take
# whole **trees** of arrays.


# %%
def average(tree):
    return lax.pmean(tree, "i")


tree = {"w": x, "b": x[:, 0]}
with_shard_map = spmd(average)(tree)
with_pmap = jax.pmap(average, axis_name="i")(tree)
print(
    "same numbers:",
    all(np.allclose(with_shard_map[key], with_pmap[key]) for key in tree),
)
print("a mean on each device:", jax.tree.map(np.shape, with_shard_map))
once = jax.shard_map(average, mesh=mesh, in_specs=P("i"), out_specs=P())
print("out_specs=P(), one mean: ", jax.tree.map(np.shape, jax.jit(once)(tree)))

# %% [markdown]
# `out_specs=P()` says that the result is replicated: since all devices hold the same
# mean, `shard_map` may return it once. (It proves that first, and refuses where it
# cannot. `pmap` with `out_axes=None` would have shown you replica 0 without a word.) A
# collective over an axis that nobody has bound is an error, if not always a clear one:
# try `lax.psum(x, "j")`, for which some versions of JAX have no more than an
# `AssertionError` or a `KeyError`.

# %% [markdown]
# ## 2. Combining: sums, means, maxima
#
# **Common mistake: the mean of means.** Devices often hold different amounts of valid
# data: a last batch that is not full, sequences of different lengths. Then the mean of
# their means is, in general, *not* the mean of the data.
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
# as device 0 with its one. So add up the values and the counts over all devices first,
# and divide once.
#
# **From here on you write what one device does.** Your function gets this device's row
# and the name of an axis; `check` maps it over the devices by `jax.shard_map`, as
# `spmd` does. (It passes `check_vma=False`, which leaves out the proof about replicated
# results, so that all that runs under `pmap` runs here too. Gradients *through* a
# `psum` then come out D times as large, as under `pmap`.) Two rules hold for every
# function of this lesson. Where a check tries one of them, it is a row of the table:
#
# - [any axis] The axis may have any name and any number `D` of devices: 1, 3 or 6 as
#   well as 8. Use `axis_name`; `lax.axis_size(axis_name)` is `D`, a plain number.
# - [arguments stay] A function does not modify what it is given, such as a dict of
#   parameters.

# %% [markdown]
# ### Exercise 2.1: masked_mean
#
# Batches of text are padded: sequences of different lengths are filled up to one
# length, and the loss averages over the real tokens only. Once such a batch is split
# over devices, one of them may hold 8,000 real tokens and its neighbour 500. Averaging
# the devices' means weighs a token of the second sixteen times as much as one of the
# first. That is no beginner's slip: in October 2024 it turned out that widely used
# training libraries had been averaging means in just this way when they accumulated
# gradients ([how Hugging Face mended
# it](https://huggingface.co/blog/gradient_accumulation)).
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
# - [mean of all entries] The result is the mean over all counted entries, however they
#   are distributed over the devices.
# - [only sums travel] How many numbers a device sends does not depend on how many
#   entries it has, only on `D`.
# - [padding ignored] Masked entries may hold anything, `nan` and `inf` included. (An
#   entry that counts and is `nan` still makes the mean `nan`.)
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
# - `jnp.where(mask, x, 0)` drops what does not count, whatever it is.
# - Divide by `jnp.maximum(count, 1)`: 0 / 1 gives the required 0.

# %% check="masked_mean"

# %% [markdown] built="masked_mean"
# This is the loss of every padded batch. MaxText and Megatron-LM do the same: they sum
# the tokens' losses and the number of tokens, and divide once. Under `jax.jit` with a
# sharded batch (lesson 4) you would write `jnp.sum(losses) / jnp.sum(mask)` and the
# compiler would put the two all-reduces in; the mistake is then harder to make, and
# still possible between the micro-batches of gradient accumulation.

# %% [markdown]
# **Common mistake: weights of 0 for a mask.** `nan * 0` is `nan`. With a *bool* mask
# the compiler happens to turn `x * mask` into a selection, so that a test may not
# show it. As soon as the mask arrives as numbers, one `nan` in the padding spoils the
# mean.

# %%
dirty, mask = np.float32([1, np.nan]), np.array([True, False])
weighted_sum = jax.jit(lambda x, weights: (x * weights).sum())
print("bool mask:      ", float(weighted_sum(dirty, mask)))
print("weights 1 and 0:", float(weighted_sum(dirty, np.float32(mask))))

# %% [markdown]
# The next exercise is a loss, and a loss is differentiated. `psum` has a derivative,
# `pmax` and `pmin` have none: JAX refuses. Where the maximum only keeps numbers small
# and cancels out of the result, it needs no derivative, and `lax.stop_gradient` says
# so. Put it around what goes *in*; around the result it comes too late.

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
# The logits are often the largest array of a training step. Llama 3 knows 128,000
# tokens ([table 3 of its report](https://arxiv.org/abs/2407.21783)), so one sequence of
# 8,192 positions has 8,192 x 128,000 logits: 4.2 GB in float32. Megatron-LM never
# builds them in one place. Its output layer is split over the vocabulary, each device
# computes the logits of its own tokens, and a **vocabulary-parallel cross-entropy**
# ([Shoeybi et al., 2019](https://arxiv.org/abs/1909.08053)) needs a few numbers per
# position from the others. Its core is a log-softmax over classes that no device has
# all of.
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
# - [differentiable] Take this device's part of a cross-entropy, `-(targets *
#   result).sum()`: its `jax.grad` is the softmax minus the one-hot targets.


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
# This is the heart of a language model's loss at scale. Per position and device two
# numbers travel, whether the vocabulary has 128 entries or 128,000. To finish the
# cross-entropy, the device that owns the target's column picks its entry, all others
# return 0, and a `psum` adds them up. Megatron-LM has it as
# `vocab_parallel_cross_entropy`; the same two reductions, over blocks in place of
# devices, are what FlashAttention and exercise 2.9 do with scores.

# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above again: what follows needs their names.

# %% [markdown]
# ## 3. Moving: gather, scatter, permute, exchange
#
# The other collectives move blocks. `lax.all_gather` gives every device all blocks.
# `lax.psum_scatter` (a **reduce-scatter**) sums like `psum`, but device `d` keeps only
# the `d`-th piece of the sum. With `tiled=True` blocks are joined, and cut, along their
# first axis. Without it, gathering adds a new first axis of size D, and scattering
# removes one. FSDP gathers weights by the first and sums gradients by the second; ZeRO,
# in section 5, uses both.
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
# piece of the sum, then all pieces go to everybody. It looks like a detail of the
# implementation, and large models live on it: between the two halves a device needs
# only its own piece, and what all D devices would otherwise do is done once.


# %%
def scatter_then_gather(x):
    piece = lax.psum_scatter(x, "i", tiled=True)
    return lax.all_gather(piece, "i", tiled=True)


same = spmd(scatter_then_gather)(wide) == spmd(lambda x: lax.psum(x, "i"))(wide)
print("same as psum:", bool(same.all()))

# %% [markdown]
# `lax.ppermute` sends a block to at most one other device, and each device receives at
# most one. A list of (from, to) pairs says which: plain numbers, the same full list on
# every device. A device to which nobody sends gets zeros. Pipeline stages hand on their
# activations in this way, and ring attention its keys and values.
#
# `lax.all_to_all` sends a different piece to every device; sequence parallelism and
# expert parallelism are built on it. Its two numbers say along which axis a block is
# cut, and along which the arriving pieces are joined: below, a block of 1 x 4 is cut
# into columns, and these are joined as rows. (The picture has four devices, so that it
# can be read.)

# %%
pairs = [(d, (d + 1) % num_devices) for d in range(num_devices)]
moved = spmd(lambda x: lax.ppermute(x, "i", pairs))(wide[:, :2])
draw_collective('lax.ppermute(x, "i", pairs)', wide[:, :2], moved)
few = min(4, num_devices)
types, first_devices = (AxisType.Auto,), jax.devices()[:few]
small = jax.make_mesh((few,), ("i",), axis_types=types, devices=first_devices)
rows = wide[:few, None, :few]  # f32[4, 1, 4]: a block is a row of four columns
exchange = spmd(lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True), small)
draw_collective('lax.all_to_all(x, "i", 1, 0, tiled=True)', rows, exchange(rows))

# %% [markdown]
# **What they cost.** D devices put in a block of `n` bytes each:
#
# | `lax.` | XLA's name | a device ends with | each device sends |
# |---|---|---|---|
# | `psum`, `pmean`, `pmax`, `pmin` | all-reduce | the combined block | `2 n (D-1) / D` |
# | `psum_scatter` | reduce-scatter | a piece of the sum | `n (D-1) / D` |
# | `all_gather` | all-gather | all blocks | `n (D-1)` |
# | `all_to_all` | all-to-all | a piece from each | `n (D-1) / D` |
# | `ppermute` | collective-permute | another's block | `n` |
#
# The bytes are those of rings in the first three rows, of direct sends in the last two.
# Mind that `n` is the **input** block of one device. NCCL and the scaling book count the
# full array, and to mix up the two ways costs a factor of D.
#
# <details><summary>How NCCL and the scaling book count</summary>
#
# - [NCCL's
#   benchmark](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)
#   counts `S` bytes of the full array, which for an all-gather is what comes *out*: `S
#   = D n`. Its factors for the "bus bandwidth" are `2 (D-1) / D` for an all-reduce and
#   `(D-1) / D` for reduce-scatter, all-gather and all-to-all: the same bytes as ours.
#   (For an all-to-all, `S` is one device's buffer, our `n`.)
# - [The scaling book](https://jax-ml.github.io/scaling-book/sharding/) counts `V` bytes
#   of the full array, rounds `(D-1) / D` to 1, and lets rings run both ways round at
#   once. With `W` the bandwidth of both directions together, an all-gather or a
#   reduce-scatter takes `V / W` seconds and an all-reduce `2 V / W`. Its all-to-all,
#   where `V` is the array of all devices, takes `V / (4 W)`: on a TPU's ring, pieces
#   travel from neighbour to neighbour.
#
# </details>

# %% [markdown]
# ### Exercise 2.3: reshard_rows_to_columns
#
# A Transformer on a long text is split by *positions* in most of its layers, and by
# *heads* in attention, where every position has to see all others. DeepSpeed-Ulysses
# ([Jacobs et al., 2023](https://arxiv.org/abs/2309.14509)), a kind of **sequence
# parallelism**, goes from one layout to the other and back in each layer, by one
# `all_to_all` each way. One layer's activations of Llama 3 8B for a million positions,
# 4,096 numbers each in bfloat16, take 8.2 GB. On eight devices a device sends 7/8 of
# its eighth, 0.9 GB; a gather would have it hold all 8.2 GB first, and send eight times
# as much.
#
# Write `reshard_rows_to_columns(x, axis_name)`. A matrix `(R, C)` is split by rows;
# each device holds `(R / D, C)`. Return this device's part of the matrix split by
# columns, `(R, C / D)`. `C` is divisible by `D`.
#
# ```python
# # 8 devices, a matrix of 16 x 24: on each, x is f32[2, 24]
# reshard_rows_to_columns(x, "i")  # f32[16, 3]; on device 0 columns 0 to 2
# ```
#
# - [split by columns] Device `d` ends with the `d`-th `C / D` columns of all rows, in
#   their order, for any dtype.
# - [one all_to_all] All that is sent is one `all_to_all` of the block, in its own
#   dtype: no device ever holds the full matrix.


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
# - You cut columns and join rows. `tiled=True` keeps the number of axes.

# %% check="reshard_rows_to_columns"

# %% [markdown] built="reshard_rows_to_columns"
# This is a distributed transpose, short of turning each block. Besides Ulysses, every
# multi-dimensional Fourier transform on a cluster rests on it: transform the axis that
# each device has in full, exchange, transform the other. The picture above is of *your*
# function. The way back cuts rows and joins columns; it is also what JAX runs when it
# differentiates yours.

# %% [markdown]
# ## 4. Gradients
#
# Sums and moves can be differentiated, and the derivative is a collective again: the
# gradients of blocks go back the way the blocks came.
#
# **Predict, then run.** `all_gather` hands each device's block to all. Which collective
# brings the gradient back to a device's block?


# %%
def gathered_loss(x):
    return (lax.all_gather(x, "i", tiled=True) ** 2).sum()


def exchanged_loss(x):
    return (lax.all_to_all(x, "i", 0, 0, tiled=True) ** 2).sum()


for loss in (gathered_loss, exchanged_loss):
    for one in collectives(spmd(jax.grad(loss)), wide):
        print(f"{loss.__name__:<15}", one)

# %% [markdown]
# All devices have used the block, so all their gradients for it are summed, and each
# sum returns to its owner: a reduce-scatter. Lesson 4's FSDP is this pair, an
# all-gather of weights forward and a reduce-scatter of gradients backward. An
# `all_to_all` is undone by another, a `ppermute` by one that sends the other way.
#
# **Which gradient do you get?** Now each device has its own copy of a weight, `d` on
# device `d`, and its own loss, `w ** 2`.
#
# **Predict, then run.** Differentiate the *averaged* loss with respect to a device's
# copy. Do all devices get the same gradient?

# %%
weights = np.float32(numbers)
of_mean = spmd(jax.grad(lambda w: lax.pmean(w**2, "i")))(weights)
mean_of = spmd(lambda w: lax.pmean(jax.grad(lambda w: w**2)(w), "i"))(weights)
print("grad of pmean(loss):", np.asarray(of_mean))
print("pmean of grad(loss):", np.asarray(mean_of))

# %% [markdown]
# The average loss is the same number everywhere, but each device asks how it changes
# with *its* copy, and nobody else's gradient is in the answer: `2 d / D`. (`pmap`
# leaves out the division: `2 d`.) **Averaging losses does not average gradients.** The
# second line is what training needs: take gradients first, then average them. Lesson 3
# builds on it, and shows what changes when the weights are handed to `shard_map` as one
# replicated array.

# %% [markdown]
# ## 5. The optimizer's state, an eighth on each device
#
# Plain data parallelism averages gradients by an all-reduce, and then every device does
# the same update with the same numbers. In float32, weights and gradients take 4 bytes
# per parameter each, and Adam's two moments 8: for a model of 8 billion parameters 128
# GB, of which 64 GB are moments. Eight devices hold the same 64 GB eight times.
#
# **ZeRO** ([Rajbhandari et al., 2019](https://arxiv.org/abs/1910.02054)) starts from
# the sentence in section 3: an all-reduce is a reduce-scatter and an all-gather. So put
# the update *between* the two. After the reduce-scatter device `d` has the mean
# gradient for the `d`-th piece of the weights. It updates that piece, with the only
# copy of its moments, and the all-gather hands the new weights to everybody. This is
# stage 1: 64 GB of moments become 8 per device, 128 GB become 72 (activations not
# counted), and the bytes that are sent are those of the all-reduce.
#
# | | weights | gradients | moments | in all |
# |---|---|---|---|---|
# | data parallel | 32 GB | 32 GB | 64 GB | 128 GB |
# | ZeRO-1, 8 devices | 32 GB | 32 GB | 8 GB | **72 GB** |
# | an H100 has | | | | 80 GB |

# %% [markdown]
# ### Exercise 2.4: sharded_update
#
# DeepSpeed calls this `"stage": 1`, PyTorch `ZeroRedundancyOptimizer`, Megatron-LM its
# distributed optimizer. You build it for SGD with momentum, which has one moment per
# weight, the velocity.
#
# Write `sharded_update(weights, velocity, grads, axis_name, lr, beta)`. Each device has
# all `weights: (n, ...)`, the gradients of its own batch, `grads: (n, ...)`, and its
# slice of the velocity, `(n / D, ...)`, the `d`-th on device `d`. With `g` the mean
# gradient over the devices, it returns the new `(weights, velocity)`: the velocity is
# `beta * velocity + g_d`, where `g_d` is the `d`-th slice of `g`, and the weights are
# `weights - lr * velocity`, in full. `n` is divisible by `D`.
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
#   *weights.shape[1:])[me]`, where `me = lax.axis_index(axis_name)`. It is traced, and
#   may still index an array.
# - Gather what is new and nobody else has: this slice of the new weights.

# %% check="sharded_update"

# %% [markdown] built="sharded_update"
# This is ZeRO stage 1 in five lines, and the curve above is of a model that it trained:
# the losses of one device, with an eighth of the optimizer's state on each. Stage 2
# also frees the gradients' other slices as soon as they are summed. Stage 3, better
# known as FSDP, shards the weights themselves and gathers them layer by layer; you
# build it in lesson 4, where the compiler writes the collectives. For Adam you would
# carry two slices in place of one: `optax`'s update runs on slices as it is, since it
# works entry by entry. What does *not* is anything that looks at all gradients at once,
# such as clipping by the global norm. How would you mend that? (A `psum` of one
# number.)

# %% [markdown]
# ## Recap
#
# - A mesh axis has a name, which says among which devices to talk; `shard_map` binds it
#   (and so does `pmap`).
# - `psum`, `pmean`, `pmax`: all-reduce. `psum_scatter`, `all_gather`: its two halves.
#   `ppermute`, `all_to_all`: blocks on the move.
# - Sum numerators and denominators; the mean of means is another number.
# - The derivative of a collective is a collective. Average gradients, not losses.
# - An all-reduce is a reduce-scatter and an all-gather. ZeRO does the update in
#   between, each device for its own slice.

# %% [markdown]
# ## Three questions
#
# **1. `x` is `f32[1024]` on each of 8 devices. How many numbers does a device hold
# after `lax.psum_scatter(x, "i", tiled=True)`?**
#
# <details><summary>1024</summary>
#
# That is `psum`: everybody keeps the full sum.
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
# **2. Each device has its own copy of equal weights, and its own batch. The loss is
# averaged with `pmean` before `jax.grad`. What happens to the copies?**
#
# <details><summary>They stay equal: the loss is the same everywhere</summary>
#
# The losses are equal, but each device differentiates with respect to its own copy.
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
# Right: one slice of D.
#
# </details>
# <details><summary>weights after the step</summary>
#
# They are gathered, and replicated as before. Lesson 4 shards them, too.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [JAX's guide to shard_map](https://docs.jax.dev/en/latest/201/shard-map.html):
#   these collectives, with their pictures.
# - [The scaling book's chapter on
#   sharding](https://jax-ml.github.io/scaling-book/sharding/): what collectives cost on
#   TPUs, and why.
# - NVIDIA's NCCL and every profiler use the words of this lesson: AllReduce, AllGather,
#   ReduceScatter.
#
# **Next**: [lesson 3](03_pmap_training.ipynb), training with several devices.

# %% [markdown]
# ## Going further
#
# The core of the lesson ends here. For another sitting: which collectives a program
# runs, the ring behind an all-reduce, what it costs on real machines, synchronised
# batch statistics and an ensemble. Their points count like any other's. A bonus on top:
# attention in a ring, and a mixture of experts. First run all cells above again.

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
# ## 6. Which collectives does a program run?
#
# `collectives(f, x)` traces `f` and lists what it asks for, by XLA's names: what one
# device puts in, how often, whether in a loop. The checks of this lesson read the same
# list.


# %%
def many_steps(x):
    def step(total, _):
        return x + lax.pmean(total, "i"), None

    total, _ = lax.scan(step, x, None, length=5)
    return total / lax.pmax(total, "i")


for one in collectives(spmd(many_steps), wide):
    print(one)

# %% [markdown]
# Now count **bytes**. There are many ways to sum `n` bytes over D devices. How much
# does each device send in each of these four?


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
for name, way in ways.items():  # each kind counts as the table of section 3 says
    sent = sum(one.bytes_moved for one in collectives(spmd(way), block))
    print(f"{name:<16}{sent:>7,.0f} bytes = {sent / block[0].nbytes:.2f} n")

# %% [markdown]
# All four give the same sums, up to rounding. The first two send `2 n (D-1) / D` bytes,
# less than `2 n` however many devices there are. The others send `n (D-1)`: with 1,000
# devices 500 times as much.

# %% [markdown]
# **Groups.** Real meshes have several axes, and a collective runs along one of them: in
# each row of devices by itself. Below, eight devices form two groups of four.

# %%
names, sizes = ("group", "member"), (2, num_devices // 2)
grid = jax.make_mesh(sizes, names, axis_types=2 * (AxisType.Auto,))
both = P(names)  # the first axis is split over both, group by group
total = jax.shard_map(
    lambda x: lax.psum(x, "member"), mesh=grid, in_specs=both, out_specs=both
)
second = wide[:, 1:2]
groups = np.arange(num_devices).reshape(sizes).tolist()
by_group = jax.jit(total)(second)
draw_collective('lax.psum(x, "member")', second, by_group, groups=groups)

# %% [markdown]
# **What you ask for, and what runs.** The trace lists the collectives that *you* wrote;
# the compiler may run others. Under plain `jax.jit` (lesson 4) you write none at all,
# and only the compiled program shows them.
#
# **Predict, then run.** Read only `by_hand` and `automatic`; the rest is lesson 4. Both
# sum the rows of a sharded matrix and leave the result sharded. On a simulated CPU, do
# both compile to a reduce-scatter?

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
# keeps its part; a GPU's compiler makes the reduce-scatter. Look for your own
# collectives in the trace, and for the compiler's in the compiled program.

# %% [markdown]
# ## 7. The ring
#
# How can an all-reduce get away with less than `2 n` bytes per device, however many
# devices there are? Cut the array into D chunks, and let every device send **one
# chunk** to its right neighbour, again and again. Below, in NumPy, four devices hold
# ones, so that a value says how many devices' blocks it contains.


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
# `d`, as after `psum_scatter`). All links are busy all the time, and each carries a
# D-th of the array per send.

# %% [markdown]
# ### Exercise 2.5: ring_all_reduce
#
# In 2017 engineers at Baidu brought the **ring all-reduce** from supercomputing to deep
# learning; [Horovod](https://arxiv.org/abs/1802.05799) and NCCL made it the way to
# average gradients. To average the 16 GB of gradients at the beginning of this lesson,
# each GPU sends 28 GB with eight GPUs, and 32 GB with a thousand. If all of the
# thousand sent theirs to one device that adds everything up, that one would receive 16
# TB.
#
# Write `ring_all_reduce(x, axis_name)`: the sum of `x: (n, ...)` over the devices, on
# all of them, by `lax.ppermute` alone. `n` is divisible by D; `x` holds floats or ints
# whose sums fit its dtype. A Python `for` over the sends is fine.
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
    # on *finished* sums makes all bits equal: floats added in another order differ.
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
#   `d`. It is traced, and may still index the array: `chunks[(d - step) % D]`.
# - `chunks.at[place].add(arrived)` and `chunks.at[place].set(arrived)` return the
#   changed array.
# - The picture's cell is the whole algorithm. `np.roll` becomes a `lax.ppermute` to the
#   right; `devices` becomes this device's own number.

# %% check="ring_all_reduce"

# %% [markdown] built="ring_all_reduce"
# This is what `lax.psum` means on a ring of links, such as one axis of a TPU pod. Stop
# after the first half and you have a reduce-scatter; take the second half alone for an
# all-gather. You will hardly write one by hand again, with two exceptions that pay:
# when computation can run *while* a chunk travels (lesson 4's collective matmul, and
# ring attention below), and when chunks are compressed on the way. Compare `x.sum(0)`
# of NumPy with your result to the last bit: they may differ, and all devices still
# agree.

# %% [markdown]
# ## 8. What a collective costs in seconds
#
# A message of `m` bytes takes `latency + m / bandwidth` seconds. The ring sends `2 (D -
# 1)` messages of `n / D` bytes, one after the other. A *tree* combines the devices in
# pairs, then pairs of pairs, and hands the sum back the same way: for D a power of two
# `2 log2(D)` messages, one after the other, each of all `n` bytes.
#
# **Predict, then run.** Both columns below count what goes one after the other, not
# what each device sends. Which is better for a small array, which for a large one?

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
# how fast. For that, one needs the data sheets:
#
# | link | one direction | source |
# |---|---|---|
# | NVLink of an H100 | 450 GB/s | [900 GB/s in both](https://www.nvidia.com/en-us/data-center/h100/) |
# | one of a TPU v5p's six ICI links | 100 GB/s | [1,200 GB/s in both, by all six](https://cloud.google.com/tpu/docs/v5p) |
# | a 400 Gbit/s network card | 50 GB/s | 400 / 8 |

# %% [markdown]
# ### Exercise 2.6: all_reduce_seconds
#
# Before anybody rents 64 GPUs, somebody does this calculation. A training step of Llama
# 3 8B on 8,192 tokens per GPU takes about a second of computing (6 x 8 billion x 8,192
# operations at 40 % of an H100's 989 TFLOP/s), and its gradients are 16 GB. Whether the
# all-reduce is a footnote or doubles the step depends on the link it runs over.
#
# Write `all_reduce_seconds(num_bytes, num_devices, bandwidth, latency)`: the seconds of
# a ring all-reduce when each device holds `num_bytes`. `bandwidth` is that of a link in
# bytes per second, `latency` in seconds per message. It is plain arithmetic.
#
# ```python
# all_reduce_seconds(16e9, 8, 450e9, 0.0)  # 0.0622: 62 ms over NVLink
# ```
#
# - [time of a ring] All messages of the ring are counted, each with its latency and its
#   bytes.
# - [one device] A single device sends nothing and needs 0 seconds.


# %% exercise="all_reduce_seconds" minutes=10 difficulty=1
def all_reduce_seconds(num_bytes, num_devices, bandwidth, latency):
    """Predicts the time of a ring all-reduce.

    Args:
        num_bytes: of the array on each device.
        num_devices: how many take part, at least 1.
        bandwidth: of a link, in bytes per second.
        latency: of a message, in seconds.

    Returns:
        Seconds, a number.
    """
    ### BEGIN SOLUTION
    # The ring of exercise 2.5, counted: its sends come one after the other, and each
    # carries a chunk. Written as sends x (cost of one), it shows why many devices make
    # a ring bad at small arrays: the bytes stop growing, the latencies do not.
    sends = 2 * (num_devices - 1)
    return sends * (latency + num_bytes / num_devices / bandwidth)
    ### END SOLUTION


# %% [markdown] hints="all_reduce_seconds"
# - How many messages does one device send, and how many bytes has each?
# - Each message costs its latency **and** its bytes divided by the bandwidth.

# %% check="all_reduce_seconds"

# %% [markdown] built="all_reduce_seconds"
# This is the model behind nearly every capacity plan, and behind compilers' own
# estimates. The table above says why data parallelism inside a machine is cheap, and
# why it needs care between machines: overlap the all-reduce with the backward pass, add
# up gradients over several micro-batches first (lesson 3), or synchronise less often
# ([Local SGD](https://arxiv.org/abs/1805.09767)). Measured times are above these, since
# no link reaches its data sheet. Put in your own machine's numbers.

# %% [markdown]
# ## 9. Statistics and ensembles
#
# Two more places where one small collective is all that is needed.

# %% [markdown]
# ### Exercise 2.7: sync_batch_norm
#
# BatchNorm normalises each feature by the batch's mean and variance. Split a batch of
# 32 images over 16 devices, and each device normalises by the statistics of *two*: the
# model becomes another one, and usually a worse one. Detection and segmentation models,
# whose images are so large that few fit, need **synchronised** statistics: PyTorch's
# `SyncBatchNorm`, Flax's `BatchNorm(axis_name="i")`.
#
# Write `sync_batch_norm(x, axis_name, eps)`. It gets this device's rows, `x: (B, F)`,
# as many on each device, and returns `(y, mean, var)`: mean and variance, `(F,)` each,
# over the rows of all devices (`var` is the mean squared distance from `mean`), and for
# this device's rows `y = (x - mean) / sqrt(var + eps)`.
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
# - `mean(x**2) - mean(x)**2` subtracts two numbers near 10^8 in 32 bits: little is
#   left.

# %% check="sync_batch_norm"

# %% [markdown] built="sync_batch_norm"
# You have the statistics of the global batch for two small all-reduces per layer.
# Lesson 3 puts such a layer into a network. Under `jax.jit` with a sharded batch
# (lesson 4), plain `x.mean(axis=0)` already is the mean of all rows: there one would
# have to work to get the *local* statistics. Sending `F` numbers instead of `B x F` is
# the pattern of this lesson: reduce first, then communicate.

# %% [markdown]
# ### Exercise 2.8: ensemble_probs
#
# Lesson 1 initialised a **deep ensemble**: a different model on each device, trained
# without any communication. Now it predicts. All members see the same batch, and their
# *probabilities* are averaged, which is nearly always more accurate than a typical
# member, and better calibrated ([Lakshminarayanan et al.,
# 2016](https://arxiv.org/abs/1612.01474)). It is as parallel as a program can be: one
# small collective per prediction.
#
# Write `ensemble_probs(params, x, axis_name)`. It gets this device's member, `{"w": (F,
# C), "b": (C,)}`, and the batch `x: (B, F)`, and returns the mean over the devices of
# `softmax(x @ w + b)`, the softmax over the `C` classes of a row.
#
# ```python
# # 8 members: w: f32[9, 3], b: f32[3] on each; x: f32[5, 9], the same on all
# ensemble_probs(params, x, "i")  # f32[5, 3], the same on all
# ```
#
# - [mean probabilities] The result is the mean of the members' probabilities.
# - [parameters stay local] A device puts nothing but its `B x C` probabilities into a
#   collective.
# - [no overflow] Logits in the thousands give finite, right results.


# %% exercise="ensemble_probs" minutes=10 difficulty=1
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
    # Softmax first, then the mean: the mean of logits would be another ensemble (a
    # geometric mean), and the mean of weights no ensemble at all. jax.nn.softmax takes
    # care of large logits.
    return lax.pmean(jax.nn.softmax(x @ params["w"] + params["b"]), axis_name)
    ### END SOLUTION


# %% [markdown] hints="ensemble_probs"
# - `jax.nn.softmax` works along the last axis. First one member's probabilities.
# - Then one `lax.pmean`. Softmax is not linear, so the order matters.

# %% check="ensemble_probs"

# %% [markdown] built="ensemble_probs"
# You get eight models in the time of one, for `B x C` numbers per device, however large
# the members are. The same shape of program serves wherever devices do *different*
# things to the same data: hyperparameter sweeps, evolution strategies, population-based
# training. Where members must not even see each other's failures, one runs them as
# separate jobs and averages files.

# %% [markdown]
# ## Bonus: attention and experts
#
# **Attention in a ring.** Each of T positions looks at all T, a matrix of T x T scores.
# For a million positions that is 10^12 numbers per head; no device holds it. Exact
# attention over such texts splits the *positions* over the devices. Queries stay where
# they are. Keys and values travel around the ring, one block at a time, and each device
# adds what the block at hand contributes to its own rows.
#
# A 1 in part `b` below: the device has added block `b`. The arrows are travelling
# blocks, not results.

# %%
parts = np.eye(4)  # device, block: at first each device adds its own
states = [parts]
for _ in range(3):
    states.append(np.maximum(states[-1], np.roll(states[-1], 1, axis=0)))
titles = ["at first", *(f"after send {number}" for number in range(1, 4))]
draw_steps(states, titles, complete=1, row="part", ring=True)

# %% [markdown]
# A softmax subtracts its row's largest score, which no single block knows. So a device
# keeps, for each of its rows, three things: the largest score **so far**, the sum of
# `exp(score - largest)` so far, and the values summed with the same weights. When a
# larger score comes along, both sums are corrected: multiplied by `exp(old - new)`.
# This is the **online softmax**, and what FlashAttention does inside one GPU.
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
# **Ring attention** ([Liu et al., 2023](https://arxiv.org/abs/2310.01889)) is one of
# the ways in which context windows grew from thousands of positions to a million: twice
# the devices, twice the text, and the same memory on each. Llama 3's longest sequences,
# of 131,072 positions, were split 16 ways; its *context parallelism* gathers keys and
# values where ring attention lets them travel ([section 3.3.2 of its
# report](https://arxiv.org/abs/2407.21783)). The sends hide behind computing: while a
# device works on one block, the next is already on its way.
#
# Write `ring_attention(q, k, v, axis_name)`. A device has N of the D N positions: `q,
# k: (N, F)` and `v: (N, C)`. It returns its `(N, C)` rows of `softmax(q @ k.T /
# sqrt(F)) @ v` over the keys and values of *all* devices. There is no mask. A Python
# `for` over the D blocks is fine, this device's own block first.
#
# ```python
# # 8 devices, 72 positions: q, k: f32[9, 10] and v: f32[9, 2] on each
# ring_attention(q, k, v, "i")  # f32[9, 2]
# ```
#
# - [exact attention] The result is this device's rows of the attention over all
#   positions.
# - [nothing is stacked] No array grows with the number of devices: the keys, values,
#   scores or results of several blocks are never stacked or joined. Scores are not kept
#   for later, either. (Sends whose result nobody uses do not count.)
# - [only keys and values travel] A device sends `D - 1` blocks of keys and of values by
#   `lax.ppermute`, and nothing else.
# - [no overflow] Scores of ±10,000 (after the division by `sqrt(F)`) give finite, right
#   results.


# %% exercise="ring_attention" minutes=25 difficulty=3
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
# This is exact attention over a text that no device can hold. Under a *causal* mask,
# where a position sees no later ones, it matters whose block has arrived: that of
# device `d - s` after `s` sends to the right. Half of the blocks are then masked out in
# full, and devices with early positions have nothing to do; giving each device an early
# and a late piece of the text evens that out. Try it: where does the mask enter, and
# what happens to `-inf` where a row has seen no key yet?

# %% [markdown]
# **A mixture of experts.** Of many small networks, the experts, each token uses one,
# which the model itself chooses: the parameters of all, for the arithmetic of one. In
# **expert parallelism** expert `d` is on device `d`, while the tokens are split over
# all devices. So tokens travel to their expert by an `all_to_all`, and the results come
# back by another.
#
# A compiled program's shapes cannot depend on what tokens choose. So each device has
# `capacity` **slots** for each expert. Its tokens take them row by row; empty slots
# travel as zeros, and a token that finds no slot is **dropped**.
#
# **Predict, then run.** Four tokens on each device, two slots per expert. Which tokens
# are dropped?

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
# White zeros are empty slots; 4, 23 and 24 were dropped. Before the exchange, a
# device's rows are experts; after it, an expert's rows are devices. The second
# `all_to_all` takes results back to the same row and slot. (Without `tiled=True`, the
# axis that is cut has size D and disappears; what arrives is stacked along a new one.)

# %% [markdown]
# ### Exercise 2.10: expert_layer
#
# GShard ([Lepikhin et al., 2020](https://arxiv.org/abs/2006.16668)) and Switch
# Transformers ([Fedus et al., 2021](https://arxiv.org/abs/2101.03961)) brought this to
# models of up to 1.6 trillion parameters, with these very words: capacity, slots,
# dropped tokens. A dropped token's result is 0; the residual connection around the
# layer carries the token on.
#
# Write `expert_layer(params, x, expert, capacity, axis_name)`. Device `d` has expert
# `d`, a layer `{"w": (F, C), "b": (C,)}`; its own tokens `x: (B, F)`; and the number of
# the expert that each of them chose, `expert: (B,)`, from 0 to `D - 1`. It returns `(B,
# C)`: each token's row holds `tanh(token @ w + b)`, with the `w` and `b` of its expert.
# Of its tokens that chose the same expert, a device sends the first `capacity` (a plain
# number, at least 1) and drops the others.
#
# ```python
# # 8 devices: w: f32[5, 3], b: f32[3]; x: f32[12, 5], expert: i32[12] on each
# expert_layer(params, x, expert, 2, "i")  # f32[12, 3]
# ```
#
# - [each token by its expert] A token's row holds what its expert makes of it.
# - [two all_to_alls] All that is sent is one `all_to_all` of at most `D x capacity`
#   tokens, and one of as many results.
# - [dropped tokens are 0] Tokens beyond the first `capacity` of a device for one expert
#   give rows of zeros.


# %% exercise="expert_layer" minutes=25 difficulty=3
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
# This is the layer that mixture-of-experts models such as Mixtral or DeepSeek-V3 run in
# place of a feed-forward layer, with two all-to-alls forward and two backward. What is
# missing is the choice: a small matrix scores the experts, each token takes its best
# one or two, the result is weighted by the score so that a gradient reaches it, and an
# extra loss keeps the load even. The table above says why: the less even the load, the
# more tokens a given capacity drops.

# %% [markdown]
# **Your score.** The scorecard shows what the checks above said last. Save the
# notebook, then run `make grade` in a terminal, in the course's folder: it grades the
# saved file as a class's work is graded, and shows the same cards.

# %% scorecard=true
