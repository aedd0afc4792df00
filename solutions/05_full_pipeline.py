# %% [markdown]
# # Lesson 5. The full pipeline
#
# COLAB_BADGE
#
# Training Llama 3 405B took 16,384 GPUs. In 54 days it was interrupted 466 times, 419
# of them unplanned: a GPU failed, a network card, a host ([the
# paper](https://arxiv.org/abs/2407.21783), section 3.3.4). That is one surprise every
# three hours. What must a training program look like, so that such a run still ends,
# and ends with the model that it would have had without a single failure?
#
# At the end of this lesson you will have written one. It streams shuffled data to eight
# devices, trains with sharded weights, and writes its own checkpoints. You will kill it
# with SIGKILL and start it again, and compare the results *bit by bit*; you will move
# it to four devices; and you will see how many digits it reads that it has never seen.
#
# **After this lesson you can**
#
# - feed devices with shuffled data, prefetched, from any step on;
# - write a compiled step that accumulates gradients, synchronises once and reuses
#   memory;
# - compute in bfloat16 where accuracy allows it;
# - save and restore sharded state, even on another number of devices, and know what to
#   do with a checkpoint that cannot be read;
# - run one script as several processes, as on a cluster;
# - split a model into pipeline stages, and schedule them so that memory suffices (in
#   the second part).
#
# **You need** lessons 1 to 4. **Time**: about 225 minutes in three sittings of 75, for
# six exercises; good places for a pause are before sections 3 and 6. The second part,
# "Going further", takes another 125.

# %% setup=true

# %% [markdown]
# ## 1. Data
#
# We begin with the smallest pipeline that has everything: 4,096 rows of 32 features, a
# linear model, batches of 256 rows split over eight devices, 500 steps of SGD. Since we
# made the data ourselves, we know the weights that it should find.
#
# **Common mistake: one batch forever.** Many examples on the web cut the first 256 rows
# once, before the loop, and train on them 500 times. The loss falls nicely.
#
# **Predict, then run.** Below, one run does that, and the other takes fresh rows in
# every step. Will their losses differ? How far from the true weights does each run end?

# %%
import itertools
import json
import logging
import os
import tempfile
import time
from importlib.metadata import distribution
from pathlib import Path

import optax
import orbax.checkpoint as ocp
from coursekit.compiled_program import CompiledProgram
from coursekit.processes import run_script
from coursekit.script import write_script
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from orbax.checkpoint.args import Composite, JsonRestore, JsonSave
from orbax.checkpoint.args import StandardRestore, StandardSave

logging.getLogger("absl").setLevel(logging.ERROR)  # Orbax's remarks as it tidies up


# %%
def make_mesh(num_devices):  # of the first devices, with one axis, "data"
    if num_devices > jax.device_count():
        there = f"{num_devices} devices; there are {jax.device_count()}"
        raise ValueError(f"a mesh of data={num_devices} needs {there}")
    devices, types = jax.devices()[:num_devices], (AxisType.Auto,)
    return jax.make_mesh((num_devices,), ("data",), axis_types=types, devices=devices)


def place(array, sharding):
    # Each device gets its part; do not write to the array afterwards.
    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])


def epoch_order(seed, epoch, num_rows):  # the order of an epoch's rows
    return np.random.default_rng((seed, epoch)).permutation(num_rows)


# %%
def regression_data(num_rows=4096, num_features=32, noise=0.1):
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=num_features), rng.normal(size=(num_rows, num_features))
    y = x @ w + noise * rng.normal(size=num_rows)
    return np.float32(x), np.float32(y), np.float32(w)


@jax.jit
def sgd(w, x, y):
    loss, grad = jax.value_and_grad(lambda w: ((x @ w - y) ** 2).mean())(w)
    return w - 0.01 * grad, loss


data_x, data_y, true_w = regression_data()
by_rows, errors = NamedSharding(make_mesh(8), P("data")), {}
for name, stride in (("the same 256 rows", 0), ("fresh rows", 256)):
    w, errors[name] = np.zeros(32, np.float32), []
    for step in range(500):
        rows = (stride * step + np.arange(256)) % 4096
        w, loss = sgd(w, place(data_x[rows], by_rows), place(data_y[rows], by_rows))
        errors[name].append(np.abs(w - true_w).max())
    print(f"{name:<18} loss {loss:.2f}, largest error {errors[name][-1]:.3f}")
draw_losses(errors, "largest error of a weight", "Two runs with the same loss")

# %% [markdown]
# The losses look the same. Only the weights tell the runs apart: the first one has
# never seen 3,840 of its 4,096 rows.
#
# So every row should come once in each epoch, in an order that is shuffled anew for
# each epoch. But a run that is killed at step 1,234,567 must also go on *with the batch
# that would have come next*, and nobody wants to read through a million batches to find
# it. Both wishes have one answer: make the data stream a **function of the step**. If
# you know the step, the seed and the number of rows, you know the batch.
# [Grain](https://github.com/google/grain), Google's data loader for JAX, is built on
# the same idea.
#
# `epoch_order(seed, epoch, num_rows)` gives the shuffled order of one epoch's rows.
# Write these orders one after another, epoch after epoch, and you get an endless line
# of row numbers. Batch k is the k-th piece of that line. With 10 rows and batches of 4,
# batch 2 takes the last two rows of epoch 0 and the first two of epoch 1:
#
# ```
# epoch   0  0  0  0   0  0  0  0   0  0  1  1   1  1 ...
# batch   0  0  0  0   1  1  1  1   2  2  2  2   3  3 ...
# ```
#
# Two promises hold in all exercises of this lesson, and are checked in each:
#
# - [arguments stay] Do not modify, delete or donate your arguments (the state of 5.2,
#   which you are asked to donate, is the one exception).
# - [nothing is remembered] A result depends on the arguments of its own call alone.
#
# Where a check tries one of them, it is a row of the table.
#
# Some checks read the program that JAX traces from your function, to see what each
# device computes and sends. So leave `float()` and NumPy out of what runs on devices.

# %% [markdown]
# ### Exercise 5.1: batches
#
# While a device computes, the host should be preparing its next batch; otherwise a GPU
# of 989 TFLOP/s waits for a Python loop that shuffles rows. The remedy is
# **prefetching**: keep a batch ahead on the devices. `jax.device_put` and `place` return
# before the copy has arrived, so one batch ahead is enough to hide it. (Flax has
# it as `flax.jax_utils.prefetch_to_device`; PyTorch's `DataLoader` prefetches on the
# host.)
#
# Write the generator `batches(data, batch_size, sharding, seed, start_step)`. It yields
# batch `start_step`, then the next, forever. `data` is a tuple of NumPy arrays with N
# rows each; a batch is a tuple of `jax.Array`s with `batch_size` rows each, placed by
# `place`.
#
# ```python
# stream = batches((images, labels), 64, by_rows, seed=0, start_step=1000)
# x, y = next(stream)          # batch 1000: f32[64, 64] and i32[64], 8 rows on each device
# ```
#
# - [right rows] Batch k holds the rows of the k-th piece of the endless line, in its
#   order. A batch may be longer than an epoch.
# - [sharded as asked] Each array of a batch is sharded as `sharding` says, on any mesh.
# - [prefetching] When `next()` returns batch k, batch k + 1 is already on the devices.
# - [starts anywhere] However large `start_step` is, the first batch comes without the
#   orders of earlier epochs.


# %% exercise="batches" minutes=20 difficulty=2
def batches(data, batch_size, sharding, seed, start_step):
    """Yields batch after batch, the next one already on the devices.

    Args:
        data: a tuple of NumPy arrays (N, ...).
        batch_size: rows in a batch, over all devices; they divide by them.
        sharding: of each array in a batch.
        seed: of the epochs' orders.
        start_step: the number of the first batch. It may be large.

    Yields:
        A tuple of `jax.Array`s (batch_size, ...).
    """

    ### BEGIN SOLUTION
    # A batch is computed from its number alone, so any step is as near as step 0. Others
    # keep an iterator's state in the checkpoint (PyTorch's StatefulDataLoader), which also
    # works where rows have no numbers.
    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now
    ### END SOLUTION


# %% [markdown] hints="batches"
# - Batch k holds `batch_size` positions of the endless line, from `k * batch_size` on;
#   `np.divmod(places, N)` gives each place's epoch and its index there.
# - Write a function `ready(step)` that makes one batch. The generator keeps one made
#   ahead.
# - `now, ahead = ahead, ready(step)`, then `yield now`.

# %% check="batches"

# %% [markdown] built="batches"
# A data stream that can be entered anywhere. A checkpoint of it is a single number, and
# two runs with the same seed see the same rows in the same order, on any number of
# devices.
#
# Your function copies rows out of arrays that the host holds in memory. The corpus of
# Llama 3 has 15.6 trillion tokens, about 62 TB as 32-bit integers: there the same row
# numbers index files, worker processes read them, and each host reads only what its own
# devices need (exercise 5.10). The order itself is not stored either: Grain computes
# row i of a shuffled epoch without making the whole permutation.

# %% [markdown]
# ## 2. The step
#
# Large models are trained on large batches: Llama 3 405B on up to 16 million tokens in
# one step. No device has memory for the activations of its whole share. So it takes its
# rows in **microbatches**, one after the other, adds up their gradients, and lets the
# optimizer step once. This is *gradient accumulation*.
#
# The devices have to agree on a gradient once per step, after the loop. But who places
# the communication? So far the compiler did.
#
# **Predict, then run.** Below, a loop over four microbatches is simply jitted. How much
# does a device send, compared with one all-reduce of the gradients?


# %%
def init_params(key, hidden=32):  # of a classifier of 8 x 8 images
    one, two = jax.random.split(key)
    w1 = jax.random.normal(one, (64, hidden)) / 8
    w2 = jax.random.normal(two, (hidden, 10)) / hidden**0.5
    return {"w1": w1, "b1": jnp.zeros(hidden), "w2": w2, "b2": jnp.zeros(10)}


def digits_loss(params, x, y):  # mean cross-entropy; x: f32[B, 64], y: i32[B]
    h = jnp.tanh(x @ params["w1"] + params["b1"])
    logits = h @ params["w2"] + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def microbatches_of(batch, count):  # (B, ...) -> (count, B / count, ...)
    return jax.tree.map(lambda a: a.reshape(count, -1, *a.shape[1:]), batch)


def updated(optimizer, state, grads):  # an optimizer's step, as in lesson 3
    updates, opt_state = optimizer.update(grads, state["opt_state"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "opt_state": opt_state}


def make_sgd():
    return optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))


# %%
def accumulated(params, x, y):  # x: f32[4, 64, 64], y: i32[4, 64]
    def add(total, piece):
        return jax.tree.map(jnp.add, total, jax.grad(digits_loss)(params, *piece)), None

    return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), (x, y))[0]


def times_sent(function, params, *others):  # in all-reduces of the parameters' size
    program = CompiledProgram(jax.jit(function).lower(params, *others).compile())
    sent = sum(one.bytes_moved for one in program.collectives)
    numbers = sum(leaf.size for leaf in jax.tree.leaves(params))
    return sent / (2 * 7 / 8 * 4 * numbers)  # of a ring of eight devices (lesson 2)


mesh = make_mesh(8)
replicated, split = NamedSharding(mesh, P()), NamedSharding(mesh, P(None, "data"))
params = jax.device_put(init_params(jax.random.key(0)), replicated)
x = place(np.ones((4, 64, 64), np.float32), split)
y = place(np.ones((4, 64), np.int32), split)
times = times_sent(accumulated, params, x, y)
print(f"a device sends {times:.1f} times the gradient's all-reduce")

# %% [markdown]
# Under `jit` you program one large machine: each microbatch's gradient is that of *all*
# rows, so each costs an all-reduce inside the loop. For a model of 8 billion parameters
# with float32 gradients, one all-reduce over eight GPUs sends 56 GB from each of them,
# 124 milliseconds over NVLink at 450 GB/s. Four of them take half a second, in every
# step.
#
# Under `jax.shard_map` you say what *one device* does, and the communication is yours
# to place. Lesson 3 showed the trap that comes with it: with `check_vma=True`, the
# default, the gradient of a replicated parameter is already summed over the devices,
# inside the loop. There are two ways to keep gradients local until you synchronise
# them:
#
# - `check_vma=False`: JAX does not track what differs between devices, and `jax.grad`
#   leaves the gradients local, as under `pmap`;
# - with the tracking on, mark the parameters as differing before you differentiate:
#   `jax.lax.pcast(params, "data", to="varying")` (in JAX 0.7: `jax.lax.pvary`).
#
# After either, `jax.lax.pmean` of the gradients, once, after the loop.
#
# The step should also **donate** its state: the new parameters are written where the
# old ones were. Without donation, the old and the new state exist at once. For 8
# billion parameters, float32 weights and Adam's two moments are 96 GB: sharded over
# eight GPUs, 12 GB on each, and without donation 24.

# %% [markdown]
# ### Exercise 5.2: make_train_step
#
# Every training framework has this function at its heart: gradient accumulation, one
# synchronisation, the optimizer, and a few numbers to watch. The number that people
# watch beside the loss is the **global norm of the gradient**: it jumps before a loss
# diverges.
#
# Write `make_train_step(loss_fn, optimizer, mesh, num_microbatches)`. It returns a
# function `step(state, batch) -> (state, metrics)`, compiled with `jax.jit`. The state
# is `{"params", "opt_state"}`, replicated; a batch is a tuple of arrays, split by rows
# over `"data"`. `loss_fn(params, *batch)` is a mean over rows. `microbatches_of` and
# `updated` are yours to use.
#
# ```python
# step = make_train_step(digits_loss, make_sgd(), mesh, num_microbatches=4)
# state, metrics = step(state, (x, y))  # x: f32[96, 64]: 12 rows a device, 3 at a time
# metrics                               # {"loss": f32[], "grad_norm": f32[]}
# ```
#
# - [same numbers] The new state is replicated, and matches that of a single device that
#   sees the whole batch.
# - [microbatches] A device computes its rows in `num_microbatches` equal pieces, one
#   after the other.
# - [one sync] All communication happens after the loop: together the calls send what
#   one all-reduce of gradients and loss sends; the number of calls is up to you.
# - [metrics] Loss and global norm (`optax.tree.norm`) are those of the whole batch; the
#   norm is that of the averaged gradient, before the optimizer clips it.
# - [donated] The old state's memory is reused for the new one.
# - [no recompilation] All of the step is compiled by `jax.jit`, and a second one with the
#   same shapes does not compile again.


# %% exercise="make_train_step" minutes=25 difficulty=3
def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    """Makes the compiled training step.

    Args:
        loss_fn: (params, *batch) -> f32 (), a mean over rows.
        optimizer: of Optax.
        mesh: of one axis, "data".
        num_microbatches: pieces that a device takes one after the other.

    Returns:
        (state, batch) -> (state, {"loss": f32 (), "grad_norm": f32 ()}). A batch's rows
        divide by devices and pieces.
    """

    ### BEGIN SOLUTION
    # shard_map for the gradients, since there we place the one sync; plain jit around it
    # for the optimizer, which needs no collective. Under jit alone the compiler decides
    # where to synchronise; in PyTorch you say `no_sync()` for all microbatches but one.
    def mean_grads(params, batch):  # one device's rows
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)
    ### END SOLUTION


# %% [markdown] hints="make_train_step"
# - Inside `shard_map` a device sees its own rows: `scan` over `microbatches_of` them,
#   adding up `jax.value_and_grad(loss_fn)`.
# - Divide the sums by `num_microbatches`, then `jax.lax.pmean(..., "data")`, after the
#   scan.
# - `jax.jit(step, donate_argnums=0)`, made once, and returned.

# %% check="make_train_step"

# %% [markdown] built="make_train_step"
# The picture shows your step on made-up digits: with one microbatch and with four it
# walks the same curve as a single device, and it sends as much as one all-reduce, where
# the jitted loop sent four times that.
#
# PyTorch's DDP has the same rule under another name: wrap all microbatches but the last
# in `no_sync()`, or pay for an all-reduce in each. Megatron and DeepSpeed go one step
# further and start the all-reduce of the last layers while the first layers' backward
# still runs. And with ZeRO (lesson 4) the all-reduce becomes a reduce-scatter, since
# each device updates only its own part of the weights.

# %% [markdown]
# ## 3. bfloat16 where it is safe
#
# (A good place for a pause. Afterwards, run all cells above again.)
#
# **Mixed precision** computes in bfloat16 and keeps what must not lose digits in
# float32. What it gains depends on the chip. An H100 multiplies bfloat16 matrices at
# 989 TFLOP/s, TF32 ones at half of that, and true float32 at 67 ([data
# sheet](https://www.nvidia.com/en-us/data-center/h100/), without sparsity); there JAX
# computes float32 products in TF32 unless you ask for more precision. A TPU's matrix
# unit multiplies bfloat16 in any case: by default, a float32 product *is* one bfloat16
# pass ([matmul precision](https://docs.jax.dev/en/latest/201/precision.html) in JAX's
# docs). So on a TPU the gain is not in the multiplication. It is in memory and
# bandwidth, of which both chips have too little: activations take half the space, and
# half the bytes travel to memory and in each collective that carries them.
#
# bfloat16 has float32's range, but 8 bits of precision instead of 24. That is enough
# for a product. Is it enough for everything?
#
# **Predict, then run.** Add a thousand ones in bfloat16, one after the other. What
# comes out?

# %%
total = jax.lax.fori_loop(0, 1000, lambda _, t: t + jnp.bfloat16(1), jnp.bfloat16(0))
print(f"a thousand ones make {float(total):.0f}")
for dtype in (jnp.float32, jnp.bfloat16, jnp.float16):
    facts = jnp.finfo(dtype)
    after_1, largest = float(facts.eps), float(facts.max)
    print(f"{facts.dtype!s:<9} next above 1: 1 + {after_1:.0e}, largest {largest:.0e}")

# %% [markdown]
# In bfloat16, 256 + 1 is 256. A small number that is added to a large one is lost, and
# the update of a weight is exactly that: an Adam step with a learning rate of 0.001
# moves a weight of 1 by 0.001, and the next bfloat16 above 1 is 1.0078. Hence the usual
# recipe: **parameters, optimizer state and losses stay float32; matrix products read
# bfloat16 copies**, which are made inside the loss, so that the gradient of the cast
# brings the gradients back as float32.
#
# One detail costs many people their speed. `jnp.matmul(a, b,
# preferred_element_type=jnp.float32)` multiplies bfloat16 and hands over the float32
# sums unrounded, which sounds like the best of both. But then the *backward* pass
# receives float32 gradients, and multiplies float32 by bfloat16: a float32 product,
# twice per layer. So here we let the product return bfloat16, and cast its result to
# float32.

# %% [markdown]
# ### Exercise 5.3: mixed_precision_loss
#
# This is what `dtype=jnp.bfloat16, param_dtype=jnp.float32` means on a Flax layer, and
# `torch.autocast` in PyTorch. Of a training step's arithmetic, nearly all is in matrix
# products, two thirds of it in the backward pass; so check that both passes are cast.
#
# Write `mixed_precision_loss(params, x, y)`: `digits_loss` of section 2 in mixed
# precision. `params` and `x` are float32, `y` holds integers.
#
# ```python
# mixed_precision_loss(params, x, y)            # f32[], close to digits_loss(params, x, y)
# jax.grad(mixed_precision_loss)(params, x, y)  # f32, as the parameters are
# ```
#
# - [same loss] The loss agrees with `digits_loss` up to bfloat16's rounding.
# - [bfloat16 products] The products with `w1` and `w2`, and those of their gradients,
#   are matrix products of bfloat16 with bfloat16.
# - [float32 gradients] Gradients with respect to `params` are float32.
# - [float32 from the logits on] Logits are cast to float32, and softmax and mean are
#   computed in it. (Biases and tanh may be in either.)


# %% exercise="mixed_precision_loss" minutes=10 difficulty=1
def mixed_precision_loss(params, x, y):
    """Computes the mean cross-entropy, its matrix products in bfloat16.

    Args:
        params: w1 f32 (64, H), b1 f32 (H,), w2 f32 (H, 10), b2 f32 (10,).
        x: f32 (B, 64).
        y: i32 (B,).

    Returns:
        f32 ().
    """
    ### BEGIN SOLUTION
    # The casts are inside the loss, so that gradients pass through them and come out as
    # float32. Flax does the same in each layer. Megatron keeps a bfloat16 copy of all
    # weights beside the float32 ones, and casts once a step.

    def product(a, b):
        return (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    logits = product(h, params["w2"]) + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
    ### END SOLUTION


# %% [markdown] hints="mixed_precision_loss"
# - `a.astype(jnp.bfloat16)` makes a copy; the gradient of a cast is a cast back.
# - A product of bfloat16 and float32 is computed in float32: cast both factors.
# - Write a function `product(a, b)` that casts both, multiplies, and casts the result
#   to float32; use it for both layers.

# %% check="mixed_precision_loss"

# %% [markdown] built="mixed_precision_loss"
# In the picture, training with your loss cannot be told from training in float32, while
# the run whose *parameters* are bfloat16 gets stuck: its updates are rounded away.
#
# Large language models are trained in this way. With float16 in place of bfloat16 you
# would also need *loss scaling*, since small gradients would become zero: float16 has
# more digits and far less range. The step after this one is float8, where each array
# carries a scale of its own (NVIDIA's Transformer Engine, DeepSeek-V3).

# %% [markdown]
# ## 4. Checkpoints
#
# So that a resumed run ends with the *same bits*, a checkpoint has to hold everything
# that the next step reads: parameters, the optimizer's state, the position in the data,
# random keys. For Llama 3 405B, float32 weights and Adam's two moments are 4.9 TB. No
# host could collect that, and no training run can wait while it is written.
#
# **Orbax** solves both. Each process writes what its own devices hold, and `save` only
# copies the state to the host and returns; the writing goes on while you train, and the
# state may be donated right after. A checkpoint counts once it is complete: one that
# was being written when the power went is ignored.
#
# **Common mistake: restoring without a target.** Orbax can restore a checkpoint without
# being told what it holds. **Predict, then run.** What becomes of the optimizer's
# state, which is a tuple?


# %%
def open_manager(directory, keep=2):  # of a folder of checkpoints; the last few stay
    state, facts = ocp.StandardCheckpointHandler(), ocp.JsonCheckpointHandler()
    handlers, folder = {"state": state, "facts": facts}, Path(directory).absolute()
    options = ocp.CheckpointManagerOptions(max_to_keep=keep)
    return ocp.CheckpointManager(folder, options=options, item_handlers=handlers)


def abstract(tree):  # shapes, dtypes and shardings of a tree of arrays
    return jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), tree
    )


def saved_shapes(manager, step):  # the saved tree: shapes and dtypes, no sharding
    tree = manager.item_metadata(step).state.tree
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


# %%
params = jax.device_put(init_params(jax.random.key(0)), replicated)
state = {"params": params, "opt_state": make_sgd().init(params)}
with open_manager(tempfile.mkdtemp()) as manager:
    manager.save(10, args=Composite(state=StandardSave(state)))
    manager.wait_until_finished()
    for name, target in (("no target", None), ("a target", abstract(state))):
        wanted = Composite(state=StandardRestore(target))
        kind = type(manager.restore(10, args=wanted).state["opt_state"]).__name__
        print(f"{name}: the optimizer's state comes back as a {kind}")

# %% [markdown]
# A target of abstract arrays gives back structure, dtypes *and sharding*. Without one,
# Orbax returns lists, and wants the same devices as before.
#
# **What if a checkpoint cannot be read?** Sooner or later, restoring raises. Perhaps
# the file is damaged. Perhaps the host's memory is full, the network drive is not
# mounted yet, or somebody changed `hidden` from 1024 to 1042 in the settings. Only in
# the first case is the checkpoint to blame, and *the program cannot know which case it
# is*. A program that guesses can destroy a run: while the memory is full, each restart
# deletes or moves one sound checkpoint more, and the last restart begins again at step
# 0.
#
# A careful trainer therefore does three things. It stops. It says which checkpoint it
# could not read, and why. It touches nothing. An older checkpoint is taken only when a
# person asks for it, and even then the newer one stays where it is. The trainer never
# begins anew by itself, either: a person does that, by choosing a new directory.

# %% [markdown]
# ### Exercise 5.4: restore_state, and save_state
#
# Write the pair of functions that a training loop calls. `save_state(manager, step,
# state, facts)` starts to save two items: `state` (by `StandardSave`) and `facts` (by
# `JsonSave`), a dict such as `{"seed": 0, "batch_size": 64}`.
#
# `restore_state(manager, fresh, settings, step=None)` returns `(step, state, facts)` of
# the newest checkpoint, or of the one at `step`. `fresh` is the state with which a new
# run would begin; `settings` are those that the checkpoint's facts must share.
#
# ```python
# save_state(manager, 200, state, {"seed": 0})
# restore_state(manager, fresh, {"seed": 0})            # (200, state, {"seed": 0})
# restore_state(manager, fresh, {"seed": 1})            # ValueError: ... seed ...
# restore_state(manager, fresh, {"seed": 0}, step=150)  # prints that 200 stays
# ```
#
# - [both come back] `restore_state` returns the values that `save_state` was given. The
#   state has the structure, dtypes and shardings of `fresh`, whatever devices it was
#   saved on.
# - [newest] Without `step`, the newest checkpoint is restored, with `step` that one. If
#   there is none at all, the result is `(0, fresh, {})`.
# - [stops if unreadable] If reading the facts or the state raises anything, it raises a
#   `RuntimeError`, and takes no older checkpoint. It never moves, deletes or writes a
#   file, not with `step` either.
# - [says why] That error names the step and is raised `from` the one that it met. With
#   `step`, a printed line names the newer checkpoints, which stay.
# - [another run] If the checkpoint's facts lack a setting, or hold a different value
#   for it: a `ValueError` that names the setting, before the state is read.
# - [does not wait] `save_state` returns before the checkpoint is written.


# %% exercise="restore_state" minutes=30 difficulty=2
def save_state(manager, step, state, facts):
    """Starts to save a state and the facts that belong to it.

    Args:
        manager: an Orbax `CheckpointManager`.
        step: number of steps done, at least 1. (Orbax skips one that is not newer than
            its last.)
        state: a tree of arrays.
        facts: plain data by name.
    """
    ### BEGIN SOLUTION
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))
    ### END SOLUTION


def restore_state(manager, fresh, settings, step=None):
    """Restores the newest checkpoint, or the one at `step`.

    Args:
        manager: an Orbax `CheckpointManager`.
        fresh: a tree of arrays: the state with which a new run would begin.
        settings: plain data that the facts must share, by name. (As in JSON: no tuples.)
        step: which checkpoint; None: the newest.

    Returns:
        (step, state, facts); (0, fresh, {}) if there is no checkpoint.

    Raises:
        ValueError: it is another run's (names the setting).
        RuntimeError: it cannot be read (names the step).
    """
    ### BEGIN SOLUTION
    # Facts first: the state of another run may not even fit `fresh`, and would look
    # unreadable. Only the reading is inside `try`, so our own ValueError stays what it is.
    # Megatron has the same way back by hand: `--ckpt-step`.

    def read(**items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            raise RuntimeError(f"checkpoint {step} cannot be read") from error

    if not (steps := sorted(manager.all_steps())):
        return 0, fresh, {}
    step = steps[-1] if step is None else step
    if newer := [one for one in steps if one > step]:
        print(f"Continuing from checkpoint {step}. Newer ones stay: {newer}.")
    facts = read(facts=JsonRestore()).facts
    if other := {k: facts.get(k) for k in settings if facts.get(k) != settings[k]}:
        raise ValueError(f"checkpoint {step} is another run's, with {other}")
    return step, read(state=StandardRestore(abstract(fresh))).state, facts
    ### END SOLUTION


# %% [markdown] hints="restore_state"
# - `manager.all_steps()` lists the steps, `manager.latest_step()` is the newest or
#   `None`.
# - Restore the facts alone, and compare. Only where they agree restore the state, by
#   `StandardRestore(abstract(fresh))`.
# - `try` covers the reading alone: otherwise its `except` would take your own
#   `ValueError` for an unreadable checkpoint.
#
#   ```python
#   try:
#       found = manager.restore(step, args=Composite(facts=JsonRestore()))
#   except Exception as error:
#       raise RuntimeError(f"checkpoint {step} cannot be read") from error
#   ...  # compare found.facts; read the state likewise
#   ```

# %% check="restore_state"

# %% [markdown] built="restore_state"
# A restart that a launcher may try as often as it likes, since it can do no harm. For
# the plain failures (a lost GPU, a lost node) it simply goes on. For the odd ones a
# person has to look, and finds everything as it was, with the reason in the traceback.
#
# What would you do then? Read the reason. If the file really is damaged, restore an
# older step, and go on in a *new* directory, so that Orbax does not skip the steps that
# the old one already has. And find out why: in a healthy cluster, files do not decay.
# Such cases are rare. In the 54 days of Llama 3's run, significant manual work was
# needed three times; automatic restarts did the rest.

# %% [markdown]
# ## 5. Another machine
#
# Tomorrow you get four devices instead of eight, or a profile says that another layout
# is faster. A sharded checkpoint does not care: it holds each array in pieces, with
# their places, and a process reads those pieces that its own devices need. **Elastic**
# training is built on this: after a failure the job restarts at once on the nodes that
# are left, instead of waiting for a spare one.
#
# There is only one thing that you may not do: gather an array on one device "for a
# moment". Of a model with 70 billion parameters, weights and Adam's moments are 840 GB
# in float32; an H100 has 80, and few hosts have so much memory either. The end of a run
# is no exception: a program that gathers the parameters for a last evaluation fails
# after its last step, so evaluate and export the state as it is, sharded.

# %% [markdown]
# ### Exercise 5.5: restore_elsewhere
#
# Write `restore_elsewhere(directory, mesh, specs)`. It restores the state of the newest
# complete checkpoint in `directory` onto any mesh. `saved_shapes(manager, step)` lists
# what the checkpoint holds: a tree of dicts and lists. `specs` is a tree like it, with
# a `PartitionSpec` for each array.
#
# ```python
# state = restore_elsewhere("/tmp/run", mesh_2x2, {"w": P("model", "data")})
# state["w"]  # f32[16, 4], saved on 8 devices by rows; now each of 4 holds f32[8, 2]
# ```
#
# - [newest values] The values are those of the newest complete checkpoint, in its dicts
#   and lists.
# - [sharded by specs] The arrays are on the devices of `mesh`, sharded as `specs` say.
# - [never gathered] No device and no host ever holds a full copy of an array that
#   `specs` shards: tell Orbax the layout, and it reads only the parts.
# - [nothing there] Without a complete checkpoint: a `FileNotFoundError` that names the
#   directory.
# - [unknown axis] A spec with an axis that the mesh lacks: a `ValueError` that names
#   it. (`NamedSharding`'s own will do.)


# %% exercise="restore_elsewhere" minutes=15 difficulty=2
def restore_elsewhere(directory, mesh, specs):
    """Restores the newest checkpoint on a mesh of its own.

    Args:
        directory: of an Orbax `CheckpointManager`, with an item "state".
        mesh: any mesh.
        specs: a `PartitionSpec` for each array of the state.

    Returns:
        The state: `jax.Array`s on `mesh`.

    Raises:
        FileNotFoundError: no checkpoint (names the directory, which the call may create).
        ValueError: an axis that the mesh lacks (names it).
    """

    ### BEGIN SOLUTION
    # The target carries the new sharding, so each process reads only its devices' parts.
    # Restoring first and `device_put` after is one line shorter, and needs a host (or a
    # device) with room for everything. PyTorch's DCP reshards while it loads, too.
    def target(leaf, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        wanted = Composite(state=StandardRestore(like))
        return manager.restore(step, args=wanted).state
    ### END SOLUTION


# %% [markdown] hints="restore_elsewhere"
# - `with open_manager(directory) as manager:` closes it again; `manager.latest_step()`
#   is `None` where there is no checkpoint.
# - The target is `saved_shapes` with `sharding=NamedSharding(mesh, spec)` for each
#   leaf: `jax.tree.map` over both trees.
# - Then restore as in 5.4: `Composite(state=StandardRestore(like))`.

# %% check="restore_elsewhere"

# %% [markdown] built="restore_elsewhere"
# One function for three jobs that people write separately: going on with fewer devices,
# changing a layout, and loading a trained model for serving, where the weights are
# split over `"model"` alone. With logical axis names (lesson 4), `specs` comes from the
# rules of the new machine, and nobody writes it by hand.

# %% [markdown]
# ## 6. Several processes
#
# (A good place for a pause. Afterwards, run all cells above again.)
#
# A cluster runs *your script once per machine*, or once per GPU.
# `jax.distributed.initialize`, called before anything else, joins the processes: from
# then on `jax.devices()` lists the devices of all of them, and a mesh spans them all.
# What you have written so far runs there unchanged, if it keeps three rules:
#
# - **All processes make the same calls in the same order**, Orbax's `save` included. A
#   collective that one of them skips makes the others wait, forever or until a timeout.
#   That is also why a process that cannot read a checkpoint must stop the whole job, as
#   yours does, instead of quietly taking another one than its neighbours.
# - **Each process serves its own devices.** `place` does: it asks for the parts of its
#   own devices alone.
# - **Files of your own are written by process 0**, into a folder that all can see.
#
# Below, section 1's pipeline is one function that keeps a copy of the weights every 20
# steps. `write_script` puts it into a file, with all that it uses.


# %%
def train_regression(directory, num_steps, cut_at=None):
    """Fits a linear model, from the last copy of its weights if there is one."""
    x, y, _ = regression_data()
    by_rows, replicated = (NamedSharding(make_mesh(8), s) for s in (P("data"), P()))
    log, copy = Path(directory, "losses.txt"), Path(directory, "copy.npz")
    found = np.load(copy) if copy.exists() else {"step": 0, "w": np.zeros_like(x[0])}
    start, w = int(found["step"]), place(found["w"], replicated)
    lines = log.read_text(encoding="utf-8").splitlines()[:start] if start else []
    for step in range(start, num_steps):
        rows = (256 * step + np.arange(256)) % 4096
        w, loss = sgd(w, place(x[rows], by_rows), place(y[rows], by_rows))
        lines.append(f"{loss:.6f}")
        if jax.process_index() == 0:
            log.write_text("\n".join(lines), encoding="utf-8")
            if step % 20 == 19:
                np.savez(part := copy.with_suffix(".part.npz"), step=step + 1, w=w)
                part.replace(copy)
        elif step == cut_at:
            os.kill(os.getpid(), 9)  # SIGKILL, as by a power cut


# %% [markdown]
# **Predict, then run.** The script runs as one process with eight devices; as two with
# four each; and as two of which one is killed at step 50. What does the other one do?
# And what happens if the same script is then started once more?

# %%
names = ("one process", "two", "two, one killed at 50")
one, two, killed = folders = [tempfile.mkdtemp() for _ in names]
train_regression(one, 120)
script = Path(two, "train.py")
write_script(script, train_regression)
again = {"directory": killed, "num_steps": 120}
print("two processes:", run_script(script, {"directory": two, "num_steps": 120}, 2))
print("one is killed:", run_script(script, again | {"cut_at": 50}, 2))
print("once more:", run_script(script, again, 2))

curves = {
    name: np.loadtxt(Path(folder, "losses.txt"))
    for name, folder in zip(names, folders, strict=True)
}
largest = max(np.abs(curve - curves["one process"]).max() for curve in curves.values())
print(f"largest difference of 120 losses is below 1e-4: {largest < 1e-4}")
draw_losses(curves, "loss", "One script, three ways to run it")

# %% [markdown]
# The survivor cannot go on: the compiled program needs all eight devices, so it waits
# until JAX's heartbeat aborts it, after 100 seconds. A launcher (SLURM, Kubernetes,
# `torchrun`) ends it sooner and starts all processes again, and they go on from the
# last copy. So the unit that fails is the whole job, and the cost of a failure is the
# time since the last checkpoint plus the restart.
#
# The losses agree up to rounding: two processes add up in another order than one. *Bit
# for bit* holds for the same devices in the same processes. On GPUs it also takes
# `XLA_FLAGS`' `--xla_gpu_deterministic_ops=true`.

# %% [markdown]
# ## 7. The training program
#
# All parts are there. What is left is the program around them, and one thing that has
# been missing since lesson 4: here the state is **sharded**. `layout_of` gives each
# array's rows to the devices, weights and Adam's moments alike, as FSDP does. Your step
# of 5.2 needs no change for that: where its `shard_map` asks for replicated parameters,
# `jit` gathers them. (All at once, not layer by layer as in lesson 4's FSDP step. What
# is kept *between* the steps, and in the checkpoints, is sharded.) `keep_layout` sees
# to it that the new state leaves the step as the old one came in.
#
# These functions are given:
#
# | function | what it does |
# |---|---|
# | `make_task(config)` | returns `(data, loss_fn, init)`; checks the settings first |
# | `make_optimizer(config)` | AdamW with warm-up and cosine schedule |
# | `first_state(init, optimizer, mesh)` | makes a state, each part on its own device |
# | `keep_layout(state, step)` | compiles `step`: its new state is sharded like `state` |
# | `settings_of(config)` | what a resumed run must share |
# | `open_log(config, step)` | returns `write(step, metrics)` and `flush()`; keeps `step` lines |
#
# Three of them prevent what has cost people their runs:
#
# - A job may wait in a cluster's queue for hours, only to fail after its first step
#   because `save_every` was 0. So `make_task` names a bad setting, and the remedy, before
#   anything is trained or written.
# - A restart takes the steps since the last checkpoint again, and their old lines must
#   leave the log. They may be all that is left of what went wrong, so `open_log` moves
#   them to `metrics.cut.jsonl` and says so.
# - The schedule of `make_optimizer` ends at step 1000, whatever `num_steps` is: its end
#   belongs to the run. If it moved with `num_steps`, a finished run that you continue for
#   longer would jump back to a large learning rate in the middle of its training.
#
# To read a loss is to wait for its step. So `write` keeps a step's metrics until the
# next ones come, **one step late**: while step k runs, `next(stream)` already prepares
# a batch. `flush` writes what is still kept.


# %%
def config_of(directory, /, **changes):  # the settings of a run
    config = {"directory": str(directory), "task": "digits", "num_devices": 8}
    config |= {"num_steps": 200, "batch_size": 64, "num_microbatches": 2, "hidden": 32}
    config |= {"save_every": 50, "keep": 2, "seed": 0, "peak_lr": 0.01, "cut_at": None}
    return config | {"mixed": False} | changes


def run_fit(directory, **changes):
    """Trains by `fit`; settings as `config_of` has them."""
    fit(config_of(directory, **changes))


def settings_of(config):  # what a resumed run must share with the one before
    free = ("directory", "num_devices", "num_steps", "save_every", "keep", "cut_at")
    return {name: value for name, value in config.items() if name not in free}


# %%
def check_config(config):  # names what is wrong, and the remedy
    if unknown := config.keys() - config_of("").keys():
        raise ValueError(f"there is no setting {sorted(unknown)}")
    if config["task"] not in ("digits", "regression"):
        raise ValueError(
            f"there is no task {config['task']!r}: use digits or regression"
        )
    names = ("batch_size", "num_devices", "num_microbatches", "save_every", "keep")
    for name in names:
        if config[name] < 1:
            raise ValueError(f"{name}={config[name]} must be a number from 1 up")
    size, devices, count = map(config.get, names[:3])
    if size % (pieces := devices * count):
        text = f"{devices} devices x {count} microbatches = {pieces}"
        raise ValueError(f"a batch of {size} does not divide by {text}")
    if os.path.exists(folder := config["directory"]) and not os.path.isdir(folder):
        raise NotADirectoryError(f"cannot write to {folder}: it is not a directory")


# %%
def digit_images(held_out):  # f32[N, 64] and i32[N]; every sixth is held out
    # Importing sklearn would take a second.
    file = "sklearn/datasets/data/digits.csv.gz"
    rows = np.loadtxt(distribution("scikit-learn").locate_file(file), delimiter=",")
    rows = rows[(np.arange(len(rows)) % 6 == 0) == held_out]
    return np.float32(rows[:, :-1] / 16), np.int32(rows[:, -1])


# %%
def square_loss(w, x, y):
    return ((x @ w - y) ** 2).mean()


def make_task(config):  # (data, loss function, function that makes the parameters)
    check_config(config)
    if config["task"] == "regression":
        x, y, w = regression_data()
        return (x, y), square_loss, lambda: jnp.zeros(w.shape)
    loss_fn = mixed_precision_loss if config["mixed"] else digits_loss
    key, hidden = jax.random.key(config["seed"]), config["hidden"]
    return digit_images(held_out=False), loss_fn, lambda: init_params(key, hidden)


def make_optimizer(config):  # AdamW after clipping, on a warm-up cosine schedule
    peak = config["peak_lr"]  # from step 1000 on a tenth of it
    rate = optax.warmup_cosine_decay_schedule(0, peak, 20, 1000, peak / 10)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate))


def accuracy(params):  # the share of held-out digits that are read right
    images, labels = digit_images(held_out=True)
    h = jnp.tanh(images @ params["w1"] + params["b1"])
    guesses = (h @ params["w2"] + params["b2"]).argmax(1)
    return float((guesses == labels).mean())


# %%
def layout_of(tree, mesh):  # each array's rows over "data", where they divide evenly
    def layout(leaf):
        splits = leaf.ndim and leaf.shape[0] % mesh.size == 0
        return NamedSharding(mesh, P("data") if splits else P())

    return jax.tree.map(layout, tree)


def first_state(init, optimizer, mesh):  # each device makes its own part
    def make():
        params = init()
        return {"params": params, "opt_state": optimizer.init(params)}

    return jax.jit(make, out_shardings=layout_of(jax.eval_shape(make), mesh))()


def keep_layout(state, step):  # the step, compiled so that states keep their sharding
    layout = jax.tree.map(lambda leaf: leaf.sharding, state)
    return jax.jit(step, donate_argnums=0, out_shardings=(layout, None))


# %%
def cut_log(path, step):  # moves lines of later steps, which are taken again, beside
    lines = path.read_text().splitlines() if path.exists() else []
    if later := lines[step:]:
        beside, part = path.with_suffix(".cut.jsonl"), path.with_suffix(".part")
        with beside.open("a") as file:
            file.writelines(f"{line}\n" for line in later)
        part.write_text("".join(f"{line}\n" for line in lines[:step]))
        part.replace(path)
        print(f"Moved the lines of later steps from {path.name} to {beside.name}.")


# %%
def open_log(config, step):  # returns write(step, metrics) and flush()
    path, kept, begun = Path(config["directory"], "metrics.jsonl"), [], time.time()
    if is_first := jax.process_index() == 0:
        cut_log(path, step)

    def flush():
        for number, metrics in kept:
            line = {"step": number} | {name: float(a) for name, a in metrics.items()}
            if is_first:
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
        kept.clear()

    def write(step, metrics):
        flush()
        kept.append((step, metrics | {"seconds": time.time() - begun}))
        if step == config["cut_at"] and (not is_first or jax.process_count() == 1):
            os.kill(os.getpid(), 9)  # the power cut of the check

    return write, flush


# %% [markdown]
# ### Exercise 5.6: fit
#
# How often should a run save? Saving often costs time, saving seldom loses work.
# [Young's rule](https://doi.org/10.1145/361147.361115) balances the two: the best
# interval is √(2 · cost of a save · time between failures). With the 186 minutes
# between failures of Llama 3's run, and a minute for each save, that is every 19
# minutes. What makes the rule true is the property that you build now: a restart loses
# nothing but the steps since the last checkpoint.
#
# Write `fit(config)`. It trains to step `config["num_steps"]` and returns the
# parameters. `config["seed"]` orders the data. Use your `batches`, `make_train_step`,
# `save_state` and `restore_state`. Checkpoints go to `directory/checkpoints`, with
# `settings_of(config)` as their facts.
#
# ```python
# config = config_of("/tmp/run", num_steps=200)  # 64 rows a batch, saves every 50 steps
# params = fit(config)                           # w1: f32[64, 32], 8 rows on each device
# fit(config)                                    # restores step 200, trains nothing
# ```
#
# - [trains to the last step] Parameters and logged losses match those of a single
#   device. Steps count from 1, batches from 0.
# - [work is shared] Each device computes its own rows of each batch, and two processes
#   with four devices each train the same model.
# - [stays sharded] The parameters are sharded as `first_state` made them, from the first
#   step to the result.
# - [goes on] Killed at any moment and started again, the run ends with the same bits,
#   and `metrics.jsonl` has each step once.
# - [checkpoints] They are saved at multiples of `save_every` and after the last step;
#   `keep` of them stay. Before checkpoint k is saved, the log has lines 1 to k
#   (`flush()`). A run with other `settings_of` is refused, as in 5.4.
# - [refuses bad settings] What `make_task` and `make_mesh` raise is raised before
#   anything is written.


# %% exercise="fit" minutes=30 difficulty=3
def fit(config):
    """Trains to the last step, from the newest checkpoint if there is one.

    If the newest checkpoint is of step `num_steps` or of a later one, it only restores.

    Args:
        config: as `config_of` makes it.

    Returns:
        The parameters, sharded over the mesh.

    Raises:
        ValueError, NotADirectoryError: before any step, for bad settings.
    """
    ### BEGIN SOLUTION
    # A first start and a restart run the same lines: restore_state returns step 0 and the
    # fresh state where there is nothing. A separate path for resuming would be the path
    # that nobody tests. Flush before save, so that no checkpoint is ahead of the log.
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, pieces = first_state(init, optimizer, mesh), config["num_microbatches"]
    train_step = keep_layout(state, make_train_step(loss_fn, optimizer, mesh, pieces))
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, settings_of(config))
        (write, flush), rows = open_log(config, start), NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, settings_of(config))
    return state["params"]
    ### END SOLUTION


# %% [markdown] hints="fit"
# - Order: mesh, task, first state, step, manager, restore, log, stream, loop.
# - `restore_state` covers the first start, too: step 0 and the fresh state.
#   In the loop: step, write; where a save is due, flush, then save.
# - Leaving `with open_manager(...) as manager:` waits until the last save is complete.


# %% check="fit"

# %% [markdown] built="fit"
# The program of the first paragraph, in fifteen lines. The picture shows one run of
# yours on two machines: it began on eight devices, ended, and went on with four, and
# its curve is that of a single device which never stopped. Its checkpoints are sharded;
# they never existed in one piece.
#
# `write_script("pipeline.py", run_fit)` makes a program of your own of it, for one GPU
# or, where `num_devices` counts those of all processes, for a cluster:
#
# ```
# python pipeline.py '{"directory": "/tmp/run", "num_devices": 1}'
# srun python pipeline.py '{"directory": "/shared/run", "num_devices": 8}' cluster
# ```
#
# The grown-up version, with the same names, is `solutions/references/full_pipeline.py`.
# It adds 5.3 (`--compute-dtype`) and 5.5 (`--mesh data=4,model=2`), keeps the best
# checkpoint besides the last ones, and saves and ends at Ctrl-C and at SIGTERM, by which
# a cluster takes its machines back. It first says what it runs on, because JAX falls
# back to the CPU where it finds no library for the GPU, and a warning that scrolls by is
# all that you would see. From an older checkpoint it continues in a new directory
# (`--start-from`).
#
# For a model and data of your own, copy `pipeline_template.py` from the same folder and
# change its four parts; `docs/training.md` is the manual.

# %% [markdown]
# ## 8. What takes the time?
#
# Rows or tokens per second is the number that decides what a run costs, and the first
# thing to ask is what limits it: the devices, or the host that feeds them.
#
# The **MFU** (model FLOPs utilization) says how much there is to gain: it is the model's
# arithmetic per second as a share of the chips' peak. Llama 3 405B reached 38 to 43
# percent ([the paper](https://arxiv.org/abs/2407.21783), table 4).
#
# **Predict, then run.** Below, the host takes 20 ms to make each batch, and a step of
# the devices about as long. One loop reads each loss at once, as `print(float(loss))`
# does; the other reads it one step late, as `write` does. What share of the first
# loop's time does the second one take?

# %%
square = place(np.ones((512, 512), np.float32), NamedSharding(make_mesh(8), P()))
images = place(np.ones((512, 512), np.float32), by_rows)


@jax.jit
def big_step(w, x):
    loss, grad = jax.value_and_grad(lambda w: ((jnp.tanh(x @ w) @ w) ** 2).mean())(w)
    return w - 0.1 * grad, loss


def seconds(steps_late, num_steps=20):
    w, waiting, start = square, [], time.perf_counter()
    for _ in range(num_steps):
        time.sleep(0.02)  # the host makes a batch
        w, loss = big_step(w, images)
        waiting.append(loss)
        while len(waiting) > steps_late:
            float(waiting.pop(0))
    w.block_until_ready()
    return time.perf_counter() - start


# %%
jax.block_until_ready(big_step(square, images))  # compiled before anything is timed
names = {"loss read at once": 0, "loss read one step late": 1}
speeds = {
    name: 1000 / 20 * min(seconds(steps_late) for _ in range(3))
    for name, steps_late in names.items()
}
draw_speeds(speeds, "ms a step", "The same steps, their losses read sooner or later")

# %% [markdown]
# Read at once, the two times add up: the host waits for the devices, then the devices
# for the host. Read one step late, they overlap, and only the longer one counts (here
# it took 0.6 to 0.8 of the time; the devices are simulated and share your cores with
# the host).
#
# Where a step itself is slow, look inside. `jax.profiler.trace(directory)` records what
# each device did; TensorBoard and Perfetto show it. **Look for** gaps (waiting for data
# or for Python), long collectives, and the slowest device, for which all others wait.

# %%
folder = tempfile.mkdtemp()
with jax.profiler.trace(folder):
    for step in range(3):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            square, loss = jax.block_until_ready(big_step(square, images))
draw_profile(folder, "Three steps on eight devices")

# %% [markdown]
# A lot of orange means that each step should do more work (a larger batch), or for
# fewer bytes to send. On your machine a bar also holds time in which its simulated
# device had no core.
#
# `full_pipeline.py` writes rows per second into its log and, where it knows the chip's
# peak, the MFU; `--profile 20` writes such a trace of twenty steps.

# %% [markdown]
# ## 9. The production checklist
#
# What a run needs before you leave it alone overnight. Your checks above tick the
# lines. (`full_pipeline.py --log wandb` and `--log tensorboard` show the curves to
# others.)

# %%
checklist(
    {
        "every row once per epoch, resumable at any step": "batches",
        "the next batch is ready while this one trains": "batches",
        "one compilation, one sync per step, memory reused": "make_train_step",
        "bfloat16 products, float32 state": "mixed_precision_loss",
        "an unreadable checkpoint stops the run and stays": "restore_state",
        "another number of devices, another layout": "restore_elsewhere",
        "killed and resumed, bit for bit, in one process or two": "fit",
    }
)

# %% [markdown]
# ## Recap
#
# - Make the data stream a function of the step: then a step number resumes it.
# - Accumulate inside the compiled step, synchronise once, donate the state.
# - A checkpoint holds everything that the next step reads. Restore it into a target
#   that says the layout.
# - A checkpoint that cannot be read is a reason to stop, not to tidy up.
# - When one of several processes dies, all end and start again.

# %% [markdown]
# ## Three questions
#
# **1. A run is resumed with its parameters and its step, but with a fresh optimizer
# state. What do you see?**
#
# <details><summary>An error</summary>
#
# A fresh state has the right shapes, so nothing raises.
#
# </details>
# <details><summary>A loss curve with a bump or without one, and other parameters in the end</summary>
#
# Right. It has become another run, and only a comparison of bits shows it.
#
# </details>
# <details><summary>The same run, since the parameters are the same</summary>
#
# AdamW's moments and its step count decide about each update, too.
#
# </details>

# %% [markdown]
# **2. One of sixteen processes dies. The others...**
#
# <details><summary>go on with a smaller batch</summary>
#
# The compiled program has sixteen partners; it cannot shrink.
#
# </details>
# <details><summary>cannot go on: they wait or are aborted</summary>
#
# Right. JAX's heartbeat aborts them after 100 s; a launcher can end them sooner.
#
# </details>
# <details><summary>raise an exception that you can catch</summary>
#
# Some may; the partner stays lost.
#
# </details>

# %% [markdown]
# **3. Where may bfloat16 hurt?**
#
# <details><summary>in matrix products</summary>
#
# GPUs and TPUs add their terms up in float32.
#
# </details>
# <details><summary>in parameters that get small updates</summary>
#
# Right. 256 + 1 is 256: the update is rounded away.
#
# </details>
# <details><summary>in activations that are large</summary>
#
# Its range is float32's. float16 is the one that overflows.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [Orbax](https://orbax.readthedocs.io/): the manager's other options.
# - [JAX on several processes](https://docs.jax.dev/en/latest/501/multiprocess.html); on
#   SLURM, Kubernetes and TPU pods: `docs/clusters.md` here.
# - [MaxText](https://github.com/AI-Hypercomputer/maxtext) trains language models with
#   these parts, [Grain](https://github.com/google/grain) among them.
# - The [scaling book](https://jax-ml.github.io/scaling-book/) on what limits a large
#   run.
# - In `solutions/references/`: `sharded_pipeline.py`, the smallest pipeline;
#   `ensemble.py`, lesson 1's, trained; `pmap_linear_regression.py`; `keras_digits.py`.

# %% [markdown]
# ---
#
# ## Going further
#
# What follows takes about 125 minutes, in another sitting; first run all cells above
# again. Exercises 5.7 and 5.8, pipeline parallelism, count like those before. 5.9 and
# 5.10 are a bonus: their points come on top.

# %% [markdown]
# ## 10. Pipeline parallelism
#
# FSDP and tensor parallelism (lesson 4) send weights or activations in every layer.
# Between machines that is too much: eight GPUs of one machine talk at 450 GB/s each,
# two machines at 50 GB/s per network card. A **pipeline** sends far less. It gives each
# device whole layers, a *stage*, and only the activations at the border go on to the
# next device. Llama 3 405B was trained on 16 stages, with tensor parallelism inside
# each.
#
# The price is idle time. Device 1 cannot begin before device 0 has finished, so the
# batch is cut into microbatches that follow each other: this is the **GPipe** schedule
# ([Huang et al., 2018](https://arxiv.org/abs/1811.06965)).

# %%
draw_schedule(4, 6, "Four stages, six microbatches")


def stage(params, x):  # w: f32[W, W], b: f32[W]; x: f32[B, W]
    return jnp.tanh(x @ params["w"] + params["b"])


# %% [markdown]
# S stages need M + S - 1 ticks for M microbatches, and each of them works in M of
# these. The rest is the **bubble**: the share (S - 1) / (M + S - 1) of all time is
# spent waiting. For 16 stages and 16 microbatches that is 15/31, nearly half; for 128
# microbatches 15/143, a tenth. Hence the rule of thumb of GPipe's authors: at least
# four times as many microbatches as stages.

# %% [markdown]
# ### Exercise 5.7: pipeline_forward
#
# A pipeline looks as if each device had a program of its own. In SPMD there is one
# program for all, which runs M + S - 1 ticks; what differs is `axis_index`, and what
# arrives from the left. MaxText's pipeline is one such program, too.
#
# Write `pipeline_forward(stage_params, microbatches)` with `shard_map`: what S stages
# in turn (`stage`, each with its own parameters) make of each of M microbatches. Make
# the mesh of the first S devices, with one axis.
#
# ```python
# params = {"w": w, "b": b}        # f32[4, 8, 8], f32[4, 8]: four stages
# y = pipeline_forward(params, x)  # x: f32[6, 5, 8], six microbatches; y: f32[6, 5, 8]
# ```
#
# - [same results] The results are those of the stages called one after the other.
# - [own stage only] Each device holds the parameters of its own stage alone.
# - [number of ticks] The program runs M + S - 1 ticks. In each, a device sends one
#   microbatch to the next device, by `ppermute`. (The last device may send to the
#   first; sending in the last tick is optional.)
# - [stage s on device s] The mesh holds the first S devices in their order, and stage s
#   runs on device s.
# - [nothing else is sent] Beyond that, only the results are sent, once, at the end.
#   They may end up on any device.


# %% exercise="pipeline_forward" minutes=25 difficulty=3
def pipeline_forward(stage_params, microbatches):
    """Computes a pipeline's results by the GPipe schedule.

    Args:
        stage_params: {"w": f32 (S, W, W), "b": f32 (S, W)}.
        microbatches: f32 (M, B, W), finite.

    Returns:
        f32 (M, B, W).
    """

    ### BEGIN SOLUTION
    # One program for all stages: idle devices compute on whatever they hold, and nobody
    # looks at it, which is simpler than an `if` and costs no time. jax.grad turns the scan
    # and the ppermutes around, so that the backward pipeline comes for free.
    def run(params, xs):
        own, me = jax.tree.map(lambda a: a[0], params), jax.lax.axis_index("data")

        def tick(received, time):
            x = jnp.where(me == 0, xs[jnp.minimum(time, len(xs) - 1)], received)
            y = stage(own, x)
            return jax.lax.ppermute(y, "data", to_the_right), y

        times = jnp.arange(len(xs) + last)
        return jax.lax.scan(tick, jnp.zeros_like(xs[0]), times)[1][None, last:]

    last = len(stage_params["w"]) - 1
    to_the_right = [(s, s + 1) for s in range(last)]
    specs = {"in_specs": (P("data"), P()), "out_specs": P("data"), "check_vma": False}
    spread = jax.shard_map(run, mesh=make_mesh(last + 1), **specs)
    return jax.jit(spread)(stage_params, microbatches)[-1]
    ### END SOLUTION


# %% [markdown] hints="pipeline_forward"
# - `in_specs=(P("data"), P())` gives each device its stage, with a leading axis of 1,
#   and all microbatches. With `check_vma=False`, as in 5.2.
# - `scan` over ticks; what is carried is the microbatch that came from the left. Device
#   0 takes microbatch t instead (`jnp.where`).
# - The last device's results of the last M ticks are the answer: return every device's
#   with `out_specs=P("data")` and take the last.

# %% check="pipeline_forward"

# %% [markdown] built="pipeline_forward"
# The table shows the ticks of *your* program, counted in its trace, and the bubble that
# follows from them. And it can be trained: `jax.grad` of your function is a pipeline
# that runs backward, from the last stage to the first.
#
# Notice that your devices are never really idle: in the bubble they compute garbage
# that nobody looks at. In SPMD that is the usual way. PyTorch and Megatron run another
# program in each process instead, and there a stage waits.

# %% [markdown]
# ## 11. A pipeline that trains
#
# For a gradient, each stage also goes **backward** over each microbatch, from the last
# stage to the first. Until then it has to keep what its forward pass computed.
#
# A schedule says what each stage does when: `schedule[tick][stage]` is `("F", m)`,
# forward over microbatch m, `("B", m)`, backward, or `None`. GPipe goes forward over
# all microbatches, then backward.
#
# **Predict, then run.** For how many microbatches at once does a stage keep its
# activations?


# %%
def gpipe(num_stages, num_microbatches):
    half = num_microbatches + num_stages - 1  # ticks
    schedule = [[None] * num_stages for _ in range(2 * half)]
    for s, m in np.ndindex(num_stages, num_microbatches):
        schedule[s + m][s] = "F", m
        schedule[half + num_stages - 1 - s + m][s] = "B", m
    return schedule


def most_kept(schedule, s):  # microbatches that stage s keeps at once
    turns = (tick[s] for tick in schedule if tick[s])
    changes = (1 if kind == "F" else -1 for kind, _ in turns)
    return max(itertools.accumulate(changes), default=0)


draw_turns(gpipe(4, 6), "GPipe, six microbatches")

# %% [markdown]
# Every stage keeps all six. So GPipe is in a trap: more microbatches make the bubble
# smaller, and the memory larger. **1F1B**, one forward, one backward
# ([PipeDream-Flush](https://arxiv.org/abs/2006.09503), and
# [Megatron](https://arxiv.org/abs/2104.04473), whose default it is), goes backward over
# a microbatch as soon as it can. Its bubble is the same, (S - 1) / (M + S - 1). But
# stage s keeps at most S - s microbatches, however many there are: of 128 on 16 stages,
# the first stage keeps 16, an eighth of what GPipe keeps.


# %%
@jax.jit
def forward(own, x):  # the stage's result, and what its backward needs
    return jax.vjp(stage, own, x)


@jax.jit
def backward(pull, grad):
    return pull(grad)


@jax.jit
def slope(y, target):
    return jax.grad(lambda y: ((y - target) ** 2).mean())(y)


# %%
def run_schedule(schedule, params, xs, targets):  # gradients of the stages
    last, devices = len(params) - 1, jax.devices()
    params = [jax.device_put(own, devices[s]) for s, own in enumerate(params)]
    sent = {("F", m, 0): x for m, x in enumerate(xs)}
    kept, grads = {}, [None] * len(params)
    for tick in schedule:
        for s, turn in ((s, turn) for s, turn in enumerate(tick) if turn):
            kind, m = turn[0], int(turn[1])
            x = jax.device_put(sent.pop((kind, m, s)), devices[s])
            if kind == "F":
                y, kept[s, m] = forward(params[s], x)
                now = ("F", m, s + 1) if s < last else ("B", m, s)
                sent[now] = y if s < last else slope(y, targets[m])
            else:
                grad, sent["B", m, s - 1] = backward(kept.pop((s, m)), x)
                grads[s] = jax.tree.map(jnp.add, grads[s], grad) if grads[s] else grad
    return grads


# %% [markdown]
# ### Exercise 5.8: one_f_one_b
#
# A schedule is a table, and it is checked like one. When yours is right it is also run:
# `run_schedule` above puts stage s on device s and does what each tick says.
#
# Write `one_f_one_b(num_stages, num_microbatches)`. It returns a schedule of S stages
# and M microbatches in the form of `gpipe`: a list of ticks, each a list of S entries.
# Everything else, such as the order of the microbatches, is up to you.
#
# ```python
# one_f_one_b(2, 2)
# # [[("F", 0), None], [None, ("F", 0)], [("F", 1), ("B", 0)], ...]: one of several ways
# ```
#
# - [form] The result is a list of ticks; each has an entry for each stage.
# - [each once] Each stage goes forward and backward over each microbatch once.
# - [dependencies] `("F", m)` on stage s comes after that of stage s - 1. `("B", m)`
#   comes after that of stage s + 1, on the last stage after its own `("F", m)`. After
#   means in a later tick.
# - [little is kept] From its forward to its backward a stage keeps a microbatch: stage
#   s at most S - s at once.
# - [fewest ticks] The schedule has 2 (M + S - 1) ticks.


# %% exercise="one_f_one_b" minutes=20 difficulty=2
def one_f_one_b(num_stages, num_microbatches):
    """Makes a schedule of forwards and backwards that keeps little.

    Args:
        num_stages: S, at least 1.
        num_microbatches: M, at least 1, maybe fewer than stages, maybe thousands.

    Returns:
        `schedule[tick][stage]`: ("F", m), ("B", m) or None.
    """
    ### BEGIN SOLUTION
    # In closed form: B 0 comes back to stage s in tick 2 S - 1 - s, and from then on
    # forwards and backwards take turns. Megatron writes each stage's order instead (S - s
    # forwards to warm up, then pairs), and lets the arrival of data decide the ticks.
    num_ticks = 2 * (num_microbatches + num_stages - 1)
    schedule = [[None] * num_stages for _ in range(num_ticks)]
    for s, m in np.ndindex(num_stages, num_microbatches):
        schedule[s + 2 * m][s] = "F", m
        schedule[2 * num_stages - 1 - s + 2 * m][s] = "B", m
    return schedule
    ### END SOLUTION


# %% [markdown] hints="one_f_one_b"
# - From tick S - 1 on the last stage never rests: F 0, B 0, F 1, B 1, ... In which tick
#   is B 0 on stage s? How many forwards may the stage do until then?
# - Or tick by tick: a stage goes backward where it can; else forward, if what it
#   needs is there and it keeps fewer than S - s.
# - In closed form: F m in tick s + 2 m, B m in tick 2 S - 1 - s + 2 m.


# %% check="one_f_one_b"

# %% [markdown] built="one_f_one_b"
# The picture is your schedule, and `run_schedule` has carried it out: stage s on device
# s, each backward by `jax.vjp`. The gradients are those of `jax.grad` without any
# pipeline.
#
# The bubble can be made smaller still. Megatron's *interleaved* 1F1B gives each device
# several thin stages, and its bubble shrinks by their number, for more messages;
# zero-bubble schedules and DeepSeek-V3's DualPipe split the backward into the part that
# the previous stage waits for and the part that can be done in the gaps.

# %% [markdown]
# ## 12. A language model
#
# `full_pipeline.py --model transformer` trains a decoder-only transformer with
# everything from above. Only the task changes:
#
# | | digits | text |
# |---|---|---|
# | rows | 64 pixels and a label | letters, and the letters that follow |
# | model | an MLP | attention and an MLP in each layer, by `scan` |
# | logical axes | units: "model" | heads, units: "model"; width: "data" (FSDP) |
# | compared with | accuracy | the text's entropy: no model reaches a lower loss on new text |
#
# A small version: in each sentence the words are drawn evenly, all but the last two.
# *She* or *he* follows from a name about 25 letters before, then comes *smiles*. So the
# model has to look back, and we know exactly how well the best model can do.
#
# (`--model flax-transformer`, `pipeline_flax.py`, is the same model in Flax NNX.)

# %%
WORDS = (  # one of each row
    ("ada", "bob", "eve", "max"),
    ("sees", "needs", "draws"),
    ("two", "five", "six"),
    ("red", "old", "blue"),
    ("cars", "birds", "books"),
)
LETTERS = " ,.abcdefhiklmnorstuvwx"


def text_rows(num_rows, length=48):  # letters as numbers, and those that follow
    rng, text = np.random.default_rng(0), ""
    while len(text) <= num_rows * length:
        words = [row[rng.integers(len(row))] for row in WORDS]
        who = "she" if words[0] in ("ada", "eve") else "he"
        text += f"{' '.join(words)}, {who} smiles. "
    places = np.array([LETTERS.index(letter) for letter in text], np.int32)
    pairs = places[:-1], places[1:]
    return [part[: num_rows * length].reshape(num_rows, length) for part in pairs]


# %%
def normed(h):
    return h * jax.lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-6)


def block(w, h):  # attention, then an MLP; h: f32[B, T, W]
    q, k, v = jnp.einsum("btw,wkhs->kbths", normed(h), w["qkv"])
    scores = jnp.einsum("bths,buhs->bhtu", q, k) / q.shape[-1] ** 0.5
    scores = jnp.where(jnp.tri(h.shape[1], dtype=bool), scores, -jnp.inf)
    mixed = jnp.einsum("bhtu,buhs->bths", jax.nn.softmax(scores), v)
    h = h + jnp.einsum("bths,hsw->btw", mixed, w["out"])
    return h + jax.nn.gelu(normed(h) @ w["up"]) @ w["down"]


def next_letters(params, x):  # i32[B, T] -> f32[B, T, letters]
    h = params["letters"][x] + params["places"][: x.shape[1]]
    h, _ = jax.lax.scan(lambda h, w: (block(w, h), None), h, params["layers"])
    return normed(h) @ params["letters"].T


# %% [markdown]
# Logical axes give each parameter its shape and, by rules, its layout (lesson 4). The
# rules below are two techniques at once. `heads` and `units` over "model" is Megatron's
# tensor parallelism: `qkv` and `up` are column-parallel, `out` and `down` row-parallel.
# `width` over "data" is FSDP.
#
# A real run adds more of the kind. Split the letters of the last product, of which
# Llama 3 has 128,256, and the loss becomes *vocabulary-parallel*. Split the places
# between the blocks, where normalisation treats each alone, and you have *sequence
# parallelism* ([Korthikanti et al., 2022](https://arxiv.org/abs/2205.05198)). Give each
# device MLPs of its own, and send each letter to one of them by an all-to-all: that is
# *expert parallelism* ([GShard](https://arxiv.org/abs/2006.16668),
# [Switch](https://arxiv.org/abs/2101.03961)).
#
# **Predict, then run.** On a 4 x 2 mesh, what part of each matrix does a device hold?

# %%
AXES = {"letters": "letter width", "places": "place width"}
AXES["layers"] = {
    "qkv": "layer width kind heads size",
    "out": "layer heads size width",
    "up": "layer width units",
    "down": "layer units width",
}
SIZES = {"letter": len(LETTERS), "place": 48, "width": 48, "layer": 2, "kind": 3}
SIZES |= {"heads": 4, "size": 12, "units": 192}
RULES = {"width": "data", "heads": "model", "units": "model"}
two_axes = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
shapes = jax.tree.map(lambda axes: [SIZES[name] for name in axes.split()], AXES)
for name, axes in AXES["layers"].items():
    spec = P(*map(RULES.get, axes.split()))
    part = NamedSharding(two_axes, spec).shard_shape((*shapes["layers"][name],))
    print(f"{name}: {shapes['layers'][name]}, a device holds {[*part]}")

# %% [markdown]
# An eighth of each. Below, the model is trained on one device, to be quick. Its loss
# ends at about 1.4 times the entropy: a row begins anywhere in a sentence, so its first
# letters, and sometimes the name, cannot be known; and 300 steps are few.


# %%
def text_loss(params, x, y):
    logits = next_letters(params, x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@jax.jit
def text_step(params, moments, x, y):
    loss, grads = jax.value_and_grad(text_loss)(params, x, y)
    updates, moments = optax.adam(0.005).update(grads, moments)
    return optax.apply_updates(params, updates), moments, loss


x, y = text_rows(2048)
rng = np.random.default_rng(0)
is_shape = {"is_leaf": lambda shape: isinstance(shape, list)}
params = jax.tree.map(lambda s: np.float32(rng.normal(size=s) / 8), shapes, **is_shape)
moments, losses = optax.adam(0.005).init(params), []
for step in range(300):
    rows = (16 * step + np.arange(16)) % len(x)
    params, moments, loss = text_step(params, moments, x[rows], y[rows])
    losses.append(float(loss))


# %%
entropy = sum(np.log(len(row)) for row in WORDS) * np.mean(x == LETTERS.index("."))
smooth = np.convolve(losses, np.full(25, 1 / 25), "valid") / entropy
curves = {"training, a mean of 25 steps": smooth, "the text": np.ones(276)}
curves["uniform guess"] = np.full(276, np.log(len(LETTERS)) / entropy)
draw_losses(curves, "loss / the text's entropy", "A transformer learns to write")
guess = jax.jit(next_letters)
for text in ("eve sees two old birds, ", "max needs five blue books, "):
    while not text.endswith("."):
        row = np.array([[LETTERS.index(letter) for letter in text.ljust(48)]])
        text += LETTERS[int(guess(params, row)[0, len(text) - 1].argmax())]
    print(text)

# %% [markdown]
# ### Exercise 5.9: run_layers
#
# For the gradient, a `scan` over layers keeps everything that each layer computed. For
# a transformer layer in 16 bits, with fused attention, that is about 34 bytes for each
# token and unit of the width ([Korthikanti et al.](https://arxiv.org/abs/2205.05198)).
# For 32 layers of width 4,096 and 8,192 tokens it makes 36.5 GB. Keep only each layer's
# *input*, and it is 2.1 GB. The rest is computed again when the backward pass gets
# there: one forward pass more, about a third more arithmetic. This is **activation
# checkpointing**, or rematerialisation.
#
# Write `run_layers(layer, params, x)`: what L layers in turn make of `x`. `params` is a
# tree of stacked arrays (L, ...); `layer(own, x)` takes one layer's part of it and
# returns an array like `x`.
#
# ```python
# y = run_layers(block, params["layers"], h)  # two layers of section 12; h, y: f32[B, T, W]
# ```
#
# - [same result] The result is that of the layers called one after the other.
# - [same gradient] So are the gradients, also with respect to arrays that `layer`
#   closes over.
# - [only inputs are kept] For the gradient, only each layer's input is kept, as
#   `jax.checkpoint` does it.
# - [one loop] The compiled program is a loop over the layers: more layers do not make
#   it longer.


# %% exercise="run_layers" minutes=10 difficulty=2
def run_layers(layer, params, x):
    """Computes layers in turn, and keeps for the gradient their inputs alone.

    Args:
        layer: (own, x) -> an array like x.
        params: a tree of f32 (L, ...); `own` holds (...).
        x: an array, such as f32 (B, W).

    Returns:
        An array like x.
    """
    ### BEGIN SOLUTION
    # The checkpoint goes around one layer, inside the scan: around the whole scan it would
    # compute, and keep, the insides of all layers at once in the backward pass. Flax has
    # nn.remat and nn.scan for the same pair; MaxText's `remat_policy` chooses what is kept.
    kept = jax.checkpoint(layer)
    return jax.lax.scan(lambda x, own: (kept(own, x), None), x, params)[0]
    ### END SOLUTION


# %% [markdown] hints="run_layers"
# - `jax.lax.scan(step, x, params)` gives `step(x, own)` each layer's part in turn; it
#   returns the new x, and `None`.
# - `jax.checkpoint(layer)` is the same function, of which the gradient keeps the inputs
#   alone. It goes around one layer: around the scan it would keep the layers' insides
#   again.

# %% check="run_layers"

# %% [markdown] built="run_layers"
# Two lines, and the depth of a model costs almost no activation memory. The bars show
# what the gradient of eight layers keeps with a plain scan and with yours.
#
# All or nothing are only the ends of the scale. `jax.checkpoint(layer, policy=...)`
# keeps what you choose, for example the results of matrix products, which are expensive
# to recompute (`jax.checkpoint_policies.dots_saveable`), or it moves them to the host's
# memory.

# %% [markdown]
# ## 13. Each process reads its own rows
#
# `place` (section 1) cuts an array that every process holds in full. A corpus of 62 TB
# does not fit into any host, and need not: a process should read what its own devices
# hold.
#
# **Predict, then run.** Rows are split over "data" of the 4 x 2 mesh. How often is each
# row read, if every device reads for itself?


# %%
def place_from_disk(read, sharding, shape):
    def part_of(index):
        first, last, _ = index[0].indices(shape[0])
        return read(first, last)[:, *index[1:]]

    return jax.make_array_from_callback(shape, sharding, part_of)


def disk(counts, num_columns=4):  # read(first, last) gives rows, and counts them
    def read(first, last):
        counts[first:last] += 1
        rows = np.arange(first, last, dtype=np.float32)
        return np.tile(rows[:, None], num_columns)

    return read


counts = np.zeros(16, int)
place_from_disk(disk(counts), NamedSharding(two_axes, P("data")), (16, 4))
print("each row is read so many times:", *np.unique(counts))

# %% [markdown]
# Two devices hold each row, and `part_of` runs once for each of them. With tensor
# parallelism over eight devices, every row would be read eight times.
#
# There is another way to make a global array, from the other side: each process puts
# parts on its own devices and gives them to `jax.make_array_from_single_device_arrays`.

# %% [markdown]
# ### Exercise 5.10: read_own_rows
#
# Write `read_own_rows(read, sharding, shape, devices)`. It returns a list with an array
# on each of `devices`, in their order: the part that this device holds of the global
# array of `shape`, as `sharding` splits it. `read(first, last)` returns rows `first` to
# `last - 1` of the global array as a NumPy array, with all their columns.
#
# `devices` are those of one process. Use them, not `sharding.addressable_devices`: in
# this notebook, one process has all devices. How many calls of `read` it takes is up to
# you.
#
# ```python
# sharding = NamedSharding(two_axes, P("data"))  # 16 rows over 4, each part on 2 devices
# read_own_rows(read, sharding, (16, 4), jax.devices()[:2])  # reads rows 0 to 3, once
# ```
#
# - [right parts] Each device gets its part, in `read`'s dtype.
# - [own rows only] Rows that none of `devices` holds are not read.
# - [each row once] Every row that is needed is read once, even if several devices hold
#   them.


# %% exercise="read_own_rows" minutes=15 difficulty=2
def read_own_rows(read, sharding, shape, devices):
    """Reads what some devices hold of a global array, each row once.

    Args:
        read: (first, last) -> a NumPy array (last - first, ...): all columns.
        sharding: of the global array; it splits `shape` evenly.
        shape: of the global array; it has at least one axis.
        devices: some of the sharding's.

    Returns:
        A list: each device's part, on it.
    """
    ### BEGIN SOLUTION
    # Devices hold the same rows or none in common, so the first row is a key. Grain and
    # tf.data shard by process instead, and leave it to you that the processes' shares fit
    # the sharding; `jax.make_array_from_process_local_data` then places them.
    places, rows, parts = sharding.devices_indices_map(shape), {}, []
    for device in devices:
        own, *others = places[device]
        first, last, _ = own.indices(shape[0])
        if first not in rows:
            rows[first] = read(first, last)
        parts.append(jax.device_put(rows[first][:, *others], device))
    return parts
    ### END SOLUTION


# %% [markdown] hints="read_own_rows"
# - `sharding.devices_indices_map(shape)[device]` is a tuple of slices, one for each
#   axis. `slice(None)` is all of it; `own.indices(size)` makes numbers of any slice.
# - Devices have the same rows, or none in common: keep what was read in a dict, by its
#   first row.
# - `jax.device_put(part, device)`, where `part` has the other axes cut, too: a device
#   may hold some columns alone.

# %% check="read_own_rows"

# %% [markdown] built="read_own_rows"
# Together with `jax.make_array_from_single_device_arrays` this is a loader for a
# cluster: the next cells run it in two processes. For training batches one usually
# makes it simpler, and splits rows over all axes of the mesh that the batch is split
# over, so that each process reads a range of rows of its own.

# %% [markdown]
# Below, two processes with four devices each load an array by your function.
#
# **Predict, then run.** If "model" splits the rows, which rows does each process read?


# %%
def load_rows(read, sharding, shape):  # each process serves its own devices
    own = sorted(sharding.addressable_devices, key=lambda device: device.id)
    parts = read_own_rows(read, sharding, shape, own)
    return jax.make_array_from_single_device_arrays(shape, sharding, parts)


def write_counts(directory, spec):
    """Loads rows, and writes down how often this process reads each."""
    counts, types = np.zeros(16, int), (AxisType.Auto,) * 2
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=types)
    load_rows(disk(counts), NamedSharding(mesh, P(*spec)), (16, 4))
    path = Path(directory, f"{jax.process_index()}.txt")
    np.savetxt(path, counts, "%d")


def counts_of_two(spec):
    write_script(script := Path(tempfile.mkdtemp(), "rows.py"), write_counts)
    ended = run_script(script, {"directory": str(script.parent), "spec": spec}, 2)
    paths = sorted(script.parent.glob("*.txt"))
    return ended, [np.loadtxt(path, int).tolist() for path in paths]


# %%
for spec in (["data"], ["model"]):
    seen = observe(counts_of_two, spec)
    if seen.error or seen.value[0] != "finished":
        print(seen.error.message if seen.error else seen.value[0])
        print("Solve exercise 5.10, then run this again.")
        break
    rows = {
        f"process {number}": [f"{count}x" * bool(count) for count in counts]
        for number, counts in enumerate(seen.value[1])
    }
    draw_table(rows, "row: how often it is read", f"Split over {spec[0]}")

# %% [markdown]
# Over "data", each process has two of the four parts, and reads half of the rows. Over
# "model", each process has devices of both parts, so both read everything. A layout of
# the mesh that keeps "model" inside a machine is good for the collectives, and for the
# disks.

# %% [markdown]
# ## 14. Then and now
#
# You will meet older code. Most of it has a direct successor:
#
# | then | now |
# |---|---|
# | `pjit`, `in_axis_resources` | `jax.jit`, the arguments' shardings |
# | `with mesh:` | `jax.set_mesh(mesh)` |
# | `pmap` in each process | one mesh over all processes |
# | `host_local_array_to_global_array` | `jax.make_array_from_process_local_data` |
# | `flax.training.checkpoints` | Orbax's `CheckpointManager` |
#
# And there is newer code: on axes of type **Explicit**, shardings are part of an
# array's type, and JAX asks where it would have to guess. 5.2's step runs there as it
# is (it compiles once more at its second step), since inside `shard_map` each device
# has its own rows. Outside of it, JAX wants to be told how microbatches are sharded.
#
# **Predict, then run.** Over which axis is each result sharded?

# %%
explicit = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
x = place(np.ones((64, 16), np.float32), NamedSharding(explicit, P("data")))
w = place(np.ones((16, 10), np.float32), NamedSharding(explicit, P()))
specs = {"in_specs": P("data"), "out_specs": P(None, "data")}
in_map = jax.shard_map(lambda x: microbatches_of(x, 4), mesh=explicit, **specs)
for name, make in (
    ("product", lambda: x @ w),
    ("mean", lambda: (x @ w).mean()),
    ("microbatches of all rows", lambda: microbatches_of(x, 4)),
    ("microbatches in shard_map", lambda: in_map(x)),
):
    try:
        with jax.set_mesh(explicit):
            spec = jax.typeof(make()).sharding.spec
        print(f"{name}: {[axis for axis in spec if axis] or 'over none'}")
    except Exception:
        print(f"{name}: JAX asks for its out_sharding")

# %% [markdown]
# ## 15. All together
#
# One last run of everything that you wrote: `fit` trains once in float32 and once with
# your `mixed_precision_loss`, sharded over eight devices. Your `restore_elsewhere` then
# lays the second run's checkpoint out on the 4 x 2 mesh, each matrix split by columns
# over "model", as one would for serving.
#
# **Predict, then run.** How far apart are the losses of the two runs?


# %%
def losses_of(directory, **changes):  # of a run of fit, step by step
    fit(config_of(directory, num_steps=30, **changes))
    log = Path(directory, "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return np.array([json.loads(line)["loss"] for line in log])


def restored_by_columns(directory, step):  # each matrix split over "model"
    with open_manager(directory) as manager:
        shapes = saved_shapes(manager, step)
    columns = {2: P(None, "model")}
    specs = jax.tree.map(lambda leaf: columns.get(leaf.ndim, P()), shapes)
    return restore_elsewhere(directory, two_axes, specs)


def run_both():
    folder = tempfile.mkdtemp()
    losses = [losses_of(f"{folder}/{mixed}", mixed=mixed) for mixed in (False, True)]
    state = restored_by_columns(f"{folder}/True/checkpoints", 30)
    return losses, state["params"]["w1"]


# %%
seen = observe(run_both)
if seen.error:
    print(f"{seen.error.kinds[0]}: {seen.error.message}")
    print("Solve exercises 5.1 to 5.6, then run this again.")
else:
    far = np.abs(np.subtract(*seen.value[0])).max()
    print(f"the losses differ, but by less than 0.01: {0 < far < 0.01}")
    for shard in seen.layout["[1]"][:2]:
        rows, columns = (f"{first} to {stop - 1}" for first, stop in shard.index)
        print(f"device {shard.device} holds rows {rows}, columns {columns} of w1")

# %% [markdown]
# **Your score.** The scorecard shows what the checks above said last. Save the
# notebook, then run `make grade` in a terminal, in the course's folder: it grades the
# saved file as a class's work is graded, and shows the same cards.

# %% scorecard=true
