# %% [markdown]
# # Lesson 5. The full pipeline
#
# COLAB_BADGE
#
# Training Llama 3 405B took 16,384 GPUs. In 54 days it was interrupted 466 times, 419
# of them unplanned, mostly because a GPU, a network card or a host had failed ([the
# paper](https://arxiv.org/abs/2407.21783), section 3.3.4). That is one surprise every
# three hours. What must a training program look like for such a run to finish all the
# same, with exactly the model that it would have had without a failure?
#
# At the end of this lesson you will have written one. You will kill it in the middle,
# start it again and compare the results *bit by bit*; you will move it to four devices;
# and you will see how many unseen handwritten digits it recognises. The second part
# spreads a transformer over a pipeline.
#
# **You need** lessons 1 to 4. **Time**: about 240 minutes in three sittings of 80, for
# six exercises. The second part, "Going further", takes another 110. Training cells take
# up to half a minute.
#
# <!-- Llama 3: arXiv 2407.21783, section 3.3.4 and table 5, July 2024: 466 job
# interruptions in 54 days, 47 planned, 419 unexpected; significant manual intervention
# three times. 54 days / 419 = 186 minutes. -->

# %% setup=true

# %% [markdown]
# ## 1. Data
#
# We begin with the smallest pipeline that has everything: 4,096 rows of 32 features, a
# linear model, batches of 256 rows split over eight devices, 500 steps of SGD. We made
# the data ourselves, so we know the weights that it should find.
#
# **Common mistake: one batch forever.** Many examples cut the first 256 rows once,
# before the loop, and train on them 500 times.
#
# **Predict, then run.** Below, one run does that, and the other takes fresh rows in
# every step. Will their losses differ? How far from the true weights does each run end?

# %%
import functools
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
# The losses look the same. The weights tell the runs apart: the first one
# has never seen 3,840 rows.
#
# So every row should come once in each epoch, in an order that is shuffled anew. But a
# run that is killed at step 1,234,567 must also go on *with the batch that would have
# come next*. Both wishes have one answer, on which Google's loader
# [Grain](https://github.com/google/grain) is built, too: make the data stream a
# **function of the step**.
#
# `epoch_order(seed, epoch, num_rows)` gives the order of one epoch's rows. Write these
# orders one after another, and you get an endless line of row numbers. Batch k is the
# k-th slice of that line. With 10 rows and batches of 4:
#
# ```
# epoch   0  0  0  0   0  0  0  0   0  0  1  1   1  1 ...
# batch   0  0  0  0   1  1  1  1   2  2  2  2   3  3 ...
# ```
#
# Every function that you write in this lesson must obey two rules.
#
# - [arguments stay] It does not modify or delete its arguments, nor donate them unasked.
# - [nothing is remembered] Its result depends on its arguments alone, not on earlier
#   calls.
#
# Rows in **bold** are essential: together they are worth half of the points, and if one
# of them fails, the exercise earns nothing. The other rows share the other half.
#
# Some checks trace your function: leave `float()` and NumPy out of what runs on devices.

# %% [markdown]
# ### Exercise 5.1: batches
#
# While the devices compute step k, the next batch can already be on its way to them: this
# is **prefetching**. `place` returns before the copy has arrived, so the copy of batch k
# + 1 runs while step k computes. That hides the copy, not the shuffling on the host;
# section 8 shows what hides that.
#
# Write the generator `batches(data, batch_size, sharding, seed, start_step)`. It yields
# batch `start_step`, then the next, forever. `data` is a tuple of NumPy arrays with N
# rows each; a batch is a tuple of `jax.Array`s, placed by `place`.
#
# ```python
# stream = batches((images, labels), 32, by_rows, seed=0, start_step=1000)
# x, y = next(stream)          # batch 1000: f32[32, 64] and i32[32], 4 rows on each device
# ```
#
# - [right rows] Batch k holds the rows of the k-th slice of the endless line, in its
#   order. A batch may be longer than an epoch.
# - [sharded as asked] Each array of a batch is sharded as `sharding` says, on any mesh.
# - [prefetching] When `next()` returns batch k, batch k + 1 has been placed, too.
# - [starts anywhere] However large `start_step` is, the first batch comes without the
#   orders of earlier epochs.


# %% exercise="batches" minutes=25 difficulty=2
def batches(data, batch_size, sharding, seed, start_step):
    """Yields batch after batch, the next one already on the devices.

    Args:
        data: a tuple of NumPy arrays (N, ...).
        batch_size: rows in a batch, over all devices; a multiple of their number.
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
# - Write a function `ready(step)` that makes one batch; then `now, ahead = ahead,
#   ready(step)`, then `yield now`.

# %% check="batches"

# %% [markdown] built="batches"
# A data stream that can be entered anywhere: a checkpoint of it is a single number. The
# next cell stops your stream and enters it again.


# %%
@needs("batches")
def _():
    curves, ends = {}, []
    for name, starts in (("never stopped", [0]), ("stopped at step 150", [0, 150])):
        w, curves[name] = np.zeros(32, np.float32), []
        for start, stop in itertools.pairwise([*starts, 300]):
            stream = batches((data_x, data_y), 256, by_rows, 0, start)
            for x, y in itertools.islice(stream, stop - start):
                w, _ = sgd(w, x, y)
                curves[name].append(np.abs(np.asarray(w) - true_w).max())
        ends.append(np.asarray(w))
    for shard in x.addressable_shards[:2]:
        print(f"device {shard.device.id} holds {shard.data.shape} of {jax.typeof(x)}")
    print(f"the same bits after 300 steps: {(ends[0] == ends[1]).all()}")
    draw_losses(curves, "largest error of a weight", "Trained from your batches")


# %% [markdown]
# Here the host holds all data. The corpus of Llama 3 has 62 TB as 32-bit integers:
# there the row numbers index files, and each process reads only a range of rows, those
# of its own devices. `jax.make_array_from_process_local_data` makes the global array
# ([JAX on several processes](https://docs.jax.dev/en/latest/501/multiprocess.html)).
#
# <!-- 15.6T tokens: arXiv 2407.21783, section 3.4.1; times 4 bytes = 62.4 TB. -->

# %% [markdown]
# ## 2. The step
#
# Llama 3 405B was trained on up to 16 million tokens a step. No device has memory for
# the activations of its share. So it takes its rows in **microbatches**, one after the
# other, adds up their gradients, and lets the optimizer step once: *gradient
# accumulation*.
#
# The devices have to agree on a gradient once per step, after the loop. Who places that
# communication? So far the compiler did.
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
def digit_images(held_out):  # f32[N, 64] and i32[N]; every sixth is held out
    # Importing sklearn would take a second.
    file = "sklearn/datasets/data/digits.csv.gz"
    rows = np.loadtxt(distribution("scikit-learn").locate_file(file), delimiter=",")
    rows = rows[(np.arange(len(rows)) % 6 == 0) == held_out]
    return np.float32(rows[:, :-1] / 16), np.int32(rows[:, -1])


# %%
def accumulated(params, x, y):  # x: f32[4, 64, 64], y: i32[4, 64]
    def add(total, piece):
        return jax.tree.map(jnp.add, total, jax.grad(digits_loss)(params, *piece)), None

    return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), (x, y))[0]


def times_sent(params, function, *given):  # in all-reduces of the parameters' size
    program = CompiledProgram(jax.jit(function).lower(*given).compile())
    sent = sum(one.bytes_moved for one in program.collectives)
    numbers = sum(leaf.size for leaf in jax.tree.leaves(params))
    return sent / (2 * 7 / 8 * 4 * numbers)  # of a ring of eight devices (lesson 2)


guess = None  # your prediction: how many times as much
mesh = make_mesh(8)
replicated, split = NamedSharding(mesh, P()), NamedSharding(mesh, P(None, "data"))
params = jax.device_put(init_params(jax.random.key(0)), replicated)
x = place(np.ones((4, 64, 64), np.float32), split)
y = place(np.ones((4, 64), np.int32), split)
times = times_sent(params, accumulated, params, x, y)
print(f"a device sends {times:.1f} times the gradient's all-reduce")
prediction("bytes of the loop, in all-reduces of the gradients", round(times, 1), guess)

# %% [markdown]
# Under `jit` each microbatch's gradient is that of *all* rows, so each costs an
# all-reduce inside the loop. (The compilers of GPUs and TPUs move simple cases out of it;
# one [did so wrongly](https://github.com/openxla/xla/issues/49143) in 2026.) For 8
# billion parameters in float32, one all-reduce over eight GPUs sends 56 GB from each, 124
# milliseconds over NVLink at 450 GB/s. Four of them take half a second, in every step.
#
# Under `jax.shard_map` the communication is yours to place. But with `check_vma=True`,
# the default, the gradient of a replicated parameter is already summed over the
# devices, inside the loop (lesson 3). There are two ways to keep gradients local until
# you synchronise them once, after the loop, by `jax.lax.pmean`:
#
# - `check_vma=False`: JAX does not track what differs between devices, and `jax.grad`
#   leaves the gradients local, as under `pmap`;
# - keep the tracking, but turn the parameters into values that may differ between
#   devices, before you differentiate: `jax.lax.pcast(params, "data", to="varying")` (in
#   JAX 0.7: `jax.lax.pvary`). Cast the zero from which your scan adds up the loss, too.
#
# The step should also **donate** its state: the new parameters are written where the
# old ones were. For 8 billion parameters, weights and Adam's moments are 96 GB: sharded
# over eight GPUs, 12 GB on each, and without donation 24. (Here they are replicated;
# section 7 shards them.)
#
# <!-- 2 x 7/8 x 32 GB = 56 GB; H100 SXM, NVLink 4: 900 GB/s both ways (NVIDIA's data
# sheet, 2023), 450 one way. -->

# %% [markdown]
# ### Exercise 5.2: make_train_step
#
# Beside the loss, people watch the **global norm of the gradient**: it jumps before a
# loss diverges.
#
# Write `make_train_step(loss_fn, optimizer, mesh, num_microbatches)`. It returns a
# compiled function `step(state, batch) -> (state, metrics)`. The state is `{"params",
# "opt_state"}`, replicated; a batch is a tuple of arrays, split by rows over `"data"`.
# `loss_fn(params, *batch)` is a mean over rows. `microbatches_of` (inside a
# `shard_map`: outside, it would move rows between devices) and `updated` are given.
#
# ```python
# step = make_train_step(digits_loss, make_sgd(), mesh, num_microbatches=4)
# state, metrics = step(state, (x, y))  # x: f32[96, 64]: 12 rows a device, 3 at a time
# metrics                               # {"loss": f32[], "grad_norm": f32[]}
# ```
#
# - [same numbers] The new state is replicated, and matches that of a single device that
#   sees the whole batch.
# - [microbatches] A device computes its rows in `num_microbatches` equal parts, one
#   after the other: by `scan` or by a Python loop, not all at once.
# - [one sync] All communication happens after the loop: each gradient and the loss are
#   reduced once, in one call or several.
# - [metrics] Loss and global norm (`optax.tree.norm`) are those of the whole batch; the
#   norm is that of the averaged gradient, before the optimizer clips it.
# - [donated] The old state's memory is reused for the new one.
# - [no recompilation] All of the step is compiled by `jax.jit`, and a second one with the
#   same shapes does not compile again.


# %% exercise="make_train_step" minutes=30 difficulty=3
def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    """Makes the compiled training step.

    Args:
        loss_fn: (params, *batch) -> f32 (), a mean over rows.
        optimizer: of Optax.
        mesh: of one axis, "data".
        num_microbatches: equal parts of its rows that a device takes one after the other.

    Returns:
        (state, batch) -> (state, {"loss": f32 (), "grad_norm": f32 ()}). The number of
        rows is a multiple of devices x microbatches.
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
#   scan. The update needs no map.
# - `jax.jit(step, donate_argnums=0)`, made once, and returned.

# %% check="make_train_step"

# %% [markdown] built="make_train_step"
# Since JAX 0.10, types do the same under plain `jit`, on Explicit axes (lesson 4):
# `reduced` parameters get `unreduced` gradients, not yet summed. In
# [MaxText](https://github.com/AI-Hypercomputer/maxtext/pull/5056), in 2026, code lost
# that type. The gradients stayed the same, but one all-reduce per step became one per
# microbatch: only a count of bytes, as below, shows it.
#
# <!-- MaxText pull request 5056, opened 2026-08-28: DeepSeek with ZeRO-1 and gradient
# accumulation under explicit sharding. -->


# %%
@needs("make_train_step")
def _():
    digits, curves = tuple(a[:256] for a in digit_images(held_out=False)), {}
    for num_devices, count in ((1, 1), (8, 1), (8, 4)):
        mesh, optimizer = make_mesh(num_devices), make_sgd()
        params = jax.device_put(
            init_params(jax.random.key(0)), NamedSharding(mesh, P())
        )
        batch = jax.device_put(digits, NamedSharding(mesh, P("data")))
        state = {"params": params, "opt_state": optimizer.init(params)}
        step = make_train_step(digits_loss, optimizer, mesh, count)
        times = times_sent(params, step, state, batch)
        name = f"devices: {num_devices}, microbatches: {count}"
        print(f"{name}: a device sends {times:.1f} times the gradient's all-reduce")
        losses = curves[name] = []
        for _ in range(40):
            state, metrics = step(state, batch)
            losses.append(float(metrics["loss"]))
    draw_losses(curves, "loss", "Your step, trained on 256 digits")


# %% [markdown]
# ## 3. bfloat16 where it is safe
#
# (A good place for a pause. Afterwards, run all cells above again.)
#
# **Mixed precision** computes in bfloat16 and keeps what must not lose digits in float32.
# An H100 multiplies bfloat16 matrices at 989 TFLOP/s, and float32 ones, rounded to TF32
# by default, at 495 ([data sheet](https://www.nvidia.com/en-us/data-center/h100/),
# without sparsity); a TPU [by default](https://docs.jax.dev/en/latest/201/precision.html)
# rounds float32 factors to bfloat16. On both, activations take half the space, and
# collectives that carry them send half the bytes.
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
# the update of a weight is exactly that. Hence the usual recipe: **parameters,
# optimizer state and losses stay float32; matrix products read bfloat16 copies**, which
# are made inside the loss, so that the gradient of the cast brings the gradients back
# as float32.
#
# A product with `preferred_element_type=jnp.float32` would get a float32 gradient, and
# its *backward* products would be float32, too. Let it return bfloat16, then cast.

# %% [markdown]
# ### Exercise 5.3: mixed_precision_loss
#
# This is `dtype=jnp.bfloat16, param_dtype=jnp.float32` of a Flax layer, and
# `torch.autocast` in PyTorch. Most of the products are in the backward pass, so
# check that both passes are cast.
#
# Write `mixed_precision_loss(params, x, y)`: `digits_loss` of section 2 in mixed
# precision. `params` and `x` are float32, `y` holds integers.
#
# ```python
# mixed_precision_loss(params, x, y)            # f32[], close to digits_loss(params, x, y)
# jax.grad(mixed_precision_loss)(params, x, y)  # f32, as the parameters are
# ```
#
# - [same loss] The loss agrees with `digits_loss` within about 2 percent, which is what
#   rounding to bfloat16 costs.
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
# - Write a function `product(a, b)` that casts both, multiplies, and casts the result
#   to float32; use it for both layers.

# %% check="mixed_precision_loss"

# %% [markdown] built="mixed_precision_loss"
# float16 needs a scaled loss as well (`torch.amp.GradScaler`), or small gradients
# vanish. bfloat16 has float32's range.

# %% [markdown]
# **Predict, then run.** What happens to a run whose *parameters* are bfloat16, too?


# %%
@needs("mixed_precision_loss")
def _():
    (x, y), curves = (a[:256] for a in digit_images(held_out=False)), {}
    for name, loss_fn, dtype in (
        ("float32", digits_loss, jnp.float32),
        ("your loss, float32 parameters", mixed_precision_loss, jnp.float32),
        ("parameters in bfloat16", digits_loss, jnp.bfloat16),
    ):
        params = init_params(jax.random.key(0))
        params, curves[name] = jax.tree.map(lambda a, d=dtype: a.astype(d), params), []
        gradient = jax.jit(jax.value_and_grad(loss_fn))
        for _ in range(300):
            loss, grads = gradient(params, x, y)
            grads = jax.tree.map(lambda a, g: 0.02 * g.astype(a.dtype), params, grads)
            params = jax.tree.map(jnp.subtract, params, grads)
            curves[name].append(float(loss))
    float32, mixed, _ = curves.values()
    far = np.abs(np.subtract(float32, mixed)).max()
    print(f"Yours is never further from float32 than 0.01: {far < 0.01}")
    draw_losses(curves, "loss", "Small steps, three ways")


# %% [markdown]
# With bfloat16 parameters the run falls behind: many of its updates are rounded away.

# %% [markdown]
# ## 4. Checkpoints
#
# For a resumed run to end with the *same bits*, a checkpoint has to hold everything
# that the next step reads: parameters, the optimizer's state, the position in the data,
# and random keys where a step draws numbers. For Llama 3 405B, weights and Adam's
# moments are 4.9 TB. No host could collect that, and no run can wait while it is
# written.
#
# **Orbax** solves both. Each process writes what its own devices hold, and `save` only
# copies the state to the host and returns. A checkpoint counts once it is complete.
# Ours have two items, the `state` (arrays) and the `facts` (JSON), which `Composite`
# names.
#
# **Common mistake: restoring without a target.** **Predict, then run.** What happens to
# the optimizer's state, which is a tuple?
#
# <!-- 405e9 x 12 bytes = 4.86 TB. -->


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
# Orbax returns plain lists and dicts, and needs the same devices.
#
# **What if a checkpoint cannot be read?** Perhaps the file is damaged; perhaps the
# host's memory is full, or somebody changed `hidden` from 1024 to 1042. *The program
# cannot know which*: if it deletes what it cannot read, each restart with a full memory
# destroys one sound checkpoint more.
#
# So a careful trainer stops, says which checkpoint it could not read and why, and
# touches nothing. Only a person takes an older one.

# %% [markdown]
# ### Exercise 5.4: restore_state and save_state
#
# Write two functions. `save_state(manager, step, state, facts)` starts to save two
# items: `state` (by `StandardSave`) and `facts` (by `JsonSave`), a dict such as
# `{"seed": 0}`.
#
# `restore_state(manager, fresh, settings, step=None)` returns `(step, state, facts)` of
# the newest checkpoint, or of the one at `step`. `fresh` tells what the state looks
# like: it is a new run's state, or its `abstract`, which needs no memory. `settings` are
# those facts that must be equal for a run to go on.
#
# ```python
# save_state(manager, 200, state, {"seed": 0})
# restore_state(manager, fresh, {"seed": 0})            # (200, state, {"seed": 0})
# restore_state(manager, fresh, {"seed": 1})            # ValueError: ... seed ...
# restore_state(manager, fresh, {"seed": 0}, step=150)  # prints that 200 stays
# ```
#
# - [both come back] `restore_state` returns the values that `save_state` was given. The
#   state has the structure, dtypes and shardings of `fresh`, whatever machine it was
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
#
# Not judged: the wording; what is printed where nothing is newer, or where reading
# fails; a `step` that does not exist.


# %% exercise="restore_state" minutes=35 difficulty=2
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
        fresh: a tree of arrays, the state with which a new run would begin; or of abstract
            ones, with their shardings.
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
# If a file really is damaged, restore an older step, and go on in a *new* directory, so
# that Orbax does not skip the steps that the old one already has.
#


# %%
@needs("restore_state")
def _():
    rows, states = {}, {}
    for count in (8, 4):  # w: f32[16, 4], split by rows over 8 devices and over 4
        rows[count] = NamedSharding(make_mesh(count), P("data"))
        states[count] = {"w": place(np.arange(64.0).reshape(16, 4), rows[count])}
    with open_manager(folder := tempfile.mkdtemp()) as manager:
        for step in (100, 200):
            save_state(manager, step, states[8], {"seed": 0})
    with open_manager(folder) as manager:
        step, state, _ = restore_state(manager, abstract(states[4]), {"seed": 0})
        draw_array(states[8]["w"], "saved on 8 devices:")
        draw_array(state["w"], f"restored from step {step}, on 4:")
        for file in Path(folder, "200", "state").rglob("*"):
            file.is_file() and file.write_bytes(b"damaged")
        try:
            restore_state(manager, states[4], {"seed": 0})
        except RuntimeError:
            print("Step 200 is damaged: your function stops.")
        restore_state(manager, states[4], {"seed": 0}, step=100)


# %% [markdown]
# ## 5. Another machine
#
# Tomorrow you get four devices instead of eight. A sharded checkpoint does not care: it
# holds each array in pieces, and a process reads those that its own devices need.
# **Elastic** training is built on this: after a failure the job restarts at once on as
# many nodes as still divide the batch.
#
# One thing is forbidden: to gather an array on one device or host "for a moment". For
# 70 billion parameters, weights and Adam's moments are 840 GB. No GPU holds that; a
# host of eight H100s with 2 TB does, but all others wait while it reads.
#
# <!-- 70e9 x 12 bytes. Host memory: Dell XE9680 with eight H100s, 2 TB, MLPerf training
# v3.1, November 2023. -->

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
# One function to go on with fewer devices, to change a layout, and to serve a model.


# %%
@needs("restore_elsewhere")
def _():
    names, types = ("data", "model"), (AxisType.Auto,) * 2
    eight = jax.make_mesh((4, 2), names, axis_types=types)
    four = jax.sharding.Mesh(eight.devices[:2], names, axis_types=types)
    w = np.arange(64, dtype=np.float32).reshape(16, 4)
    w = place(w, NamedSharding(eight, P("data", "model")))
    with open_manager(folder := tempfile.mkdtemp()) as manager:
        manager.save(10, args=Composite(state=StandardSave({"w": w})))
    restored = restore_elsewhere(folder, four, {"w": P("model", "data")})["w"]
    draw_array(w, 'saved, 4 x 2 devices, P("data", "model"):')
    draw_array(restored, 'restored, 2 x 2, P("model", "data"):')


# %% [markdown]
# ## 6. Several processes
#
# (A good place for a pause. Afterwards, run all cells above again.)
#
# A cluster runs *your script once per machine*, or once per GPU. One call, before JAX
# is used for anything else, joins the processes:
#
# ```python
# jax.distributed.initialize(
#     coordinator_address="10.0.0.1:1234",  # a free port of the machine of process 0
#     num_processes=2,
#     process_id=0,  # 1 in the other one
# )
# ```
#
# On TPU pods, Kubernetes and SLURM (there with one process per GPU) it needs no
# arguments: JAX finds them in the environment. From then on `jax.devices()` lists the
# devices of all processes. What you have written so far runs there unchanged, if it keeps
# three rules:
#
# - **All processes make the same calls in the same order**, Orbax's `save` included: a
#   collective that one of them skips makes the others wait. That is also why a process
#   that cannot read a checkpoint must stop the whole job, as yours does.
# - **Each process serves its own devices**, as `place` does.
# - **Files of your own are written by process 0**, into a folder that all can see.
#
# Below, section 1's pipeline keeps a copy of its weights every 20 steps. `write_script`
# puts it and what it uses into a file with the call above; `run_script` starts that file
# once per process.


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
            (part := log.with_suffix(".part")).write_text("\n".join(lines), "utf-8")
            part.replace(log)  # whole, whenever this process is ended
            if step % 20 == 19:
                np.savez(part := copy.with_suffix(".part.npz"), step=step + 1, w=w)
                part.replace(copy)
        elif step == cut_at:
            os.kill(os.getpid(), 9)  # SIGKILL: no handler runs


# %% [markdown]
# **Predict, then run.** The script runs as one process with eight devices; as two with
# four each; and as two of which one is killed at step 50, by SIGKILL, the signal that a
# program can neither catch nor delay. What can the other one do? And if the script is
# then started once more, at which step does it go on?

# %%
names = ("one process", "two", "two, one killed at 50")
one, two, killed = folders = [tempfile.mkdtemp() for _ in names]
train_regression(one, 120)
script = Path(two, "train.py")
write_script(script, train_regression)
again = {"directory": killed, "num_steps": 120}
print("two processes:", run_script(script, {"directory": two, "num_steps": 120}, 2))
print("one is killed:", run_script(script, again | {"cut_at": 50}, 2))
print("steps in the last copy:", np.load(Path(killed, "copy.npz"))["step"])
print("once more:", run_script(script, again, 2))

curves = {
    name: np.loadtxt(Path(folder, "losses.txt"))
    for name, folder in zip(names, folders, strict=True)
}
largest = max(np.abs(curve - curves["one process"]).max() for curve in curves.values())
print(f"largest difference of 120 losses is below 1e-4: {largest < 1e-4}")

# %% [markdown]
# The survivor can only wait: the compiled program needs all eight devices. In the end it
# is aborted, because its partner has sent no *heartbeat*, its sign of life, for 100
# seconds. A *launcher* (here `run_script`; else SLURM, Kubernetes, `torchrun`) can end it
# sooner and start all processes again. So the unit that fails is the
# whole job; it goes on at step 40.
#
# The losses agree up to rounding: two processes add up in a different order than one.
# *Bit for bit* holds for the same devices, processes and versions (on GPUs with
# `--xla_gpu_deterministic_ops=true` in `XLA_FLAGS`).
#
# <!-- 100 s: heartbeat_timeout_seconds of jax.distributed.initialize, JAX 0.10. -->

# %% [markdown]
# ## 7. The training program
#
# From here on, the state is **sharded** as in lesson 4, weights and Adam's moments alike,
# but only between steps: where the `shard_map` of your step asks for replicated
# parameters, `jit` gathers them all at once, not layer by layer as in FSDP. These
# functions are given:
#
# | function | what it does |
# |---|---|
# | `make_task(config)` | returns `(data, loss_fn, init)`; checks the settings first |
# | `make_optimizer(config)` | AdamW; its learning rate rises for 20 steps, then falls along a cosine |
# | `first_state(init, optimizer, mesh)` | makes a state, each part on its own device |
# | `resume(manager, config, init, optimizer, mesh)` | returns `(step, state)`: by your `restore_state`, or 0 and the first state |
# | `keep_layout(state, function)` | compiles a step: its new state is sharded like `state` |
# | `settings_of(config)` | what a resumed run must share |
# | `open_log(config, step)` | keeps the lines of the first `step` steps; returns `write(step, metrics)` and `flush()` |
#
# Two of them prevent mistakes that have cost people whole runs:
#
# - A restart that makes a state and then restores holds both at once: `resume` gives
#   your `restore_state` shapes and shardings alone (`jax.eval_shape`).
# - A restart repeats steps, so their old lines must leave the log: `open_log` moves
#   them to `metrics.cut.jsonl`.
#
# To read a loss is to wait for its step. So `write` keeps metrics until the next ones
# come, **one step late**, and `flush` writes what is still kept.
#
# Of their code, in the next seven cells, read only `config_of`, `first_state`, `resume`
# and `keep_layout`.


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


def new_state(init, optimizer):
    params = init()
    return {"params": params, "opt_state": optimizer.init(params)}


def abstract_state(init, optimizer, mesh):  # nothing is computed, nothing allocated
    shapes = jax.eval_shape(lambda: new_state(init, optimizer))
    layout = layout_of(shapes, mesh)
    return jax.tree.map(lambda a, s: a.update(sharding=s), shapes, layout)


# %%
def first_state(init, optimizer, mesh):  # each device makes its own part
    shapes = abstract_state(init, optimizer, mesh)
    layout = jax.tree.map(lambda leaf: leaf.sharding, shapes)
    return jax.jit(lambda: new_state(init, optimizer), out_shardings=layout)()


def resume(manager, config, init, optimizer, mesh):  # (step, state)
    shapes = abstract_state(init, optimizer, mesh)  # two states never exist at once
    step, state, _ = restore_state(manager, shapes, settings_of(config))
    return step, state if step else first_state(init, optimizer, mesh)


def keep_layout(state, function):  # a step, compiled so that states keep their sharding
    layout = jax.tree.map(lambda leaf: leaf.sharding, state)
    return jax.jit(function, donate_argnums=0, out_shardings=(layout, None))


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
# How often should a run save? [Young's rule](https://doi.org/10.1145/361147.361115) says:
# every √(2 · cost of a save · time between failures). With the 186 minutes of Llama 3's
# run, and five seconds for which each save stops the run, that is every five and a half
# minutes. The rule holds if a restart loses nothing but the steps since the last
# checkpoint: that is what you build now.
#
# Write `fit(config)`. It trains to step `config["num_steps"]` and returns the parameters.
# Use your `batches` (with `config["seed"]`, sharded by rows over the mesh's "data"),
# `make_train_step` (inside `keep_layout`), `save_state` and, by `resume`,
# `restore_state`; `write` the metrics of each step. Checkpoints go to
# `directory/checkpoints`, with `settings_of(config)` as facts; `open_manager` creates
# that folder.
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
# - [stays sharded] Parameters are sharded as `first_state` made them, from the first step
#   to the result, and batches by rows.
# - [goes on] Killed at any moment and started again, the run ends with the same bits,
#   and `metrics.jsonl` has each step once.
# - [checkpoints] They are saved at multiples of `save_every` and after the last step.
#   `flush()` comes before each. The last `keep` stay.
# - [refuses bad settings] What `make_task` and `make_mesh` raise is raised before
#   anything is written; other `settings_of` than the checkpoint's are refused, as in 5.4.


# %% exercise="fit" minutes=40 difficulty=3
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
    # A first start and a restart run the same lines: a separate path for resuming would be
    # the path that nobody tests. Flush before save, so that no checkpoint is ahead of the
    # log.
    (data, loss_fn, init), count = make_task(config), config["num_microbatches"]
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state = resume(manager, config, init, optimizer, mesh)
        train_step = make_train_step(loss_fn, optimizer, mesh, count)
        train_step = keep_layout(state, train_step)
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
# - Order: task, mesh, manager, `resume`, step, log, stream, loop.
# - `resume` covers the first start, too: step 0 and the first state. In the loop: step,
#   write; where a save is due, flush, then save.
# - Leaving `with open_manager(...) as manager:` waits until the last save is complete.

# %% check="fit"

# %% [markdown] built="fit"
# A training program in about twenty lines. Below it begins on eight devices, ends, and
# goes on with four.


# %%
@needs("batches", "make_train_step", "restore_state", "fit")
def _():
    folder, curves = tempfile.mkdtemp(), {}
    alone = tempfile.mkdtemp()
    fit(config_of(alone, num_devices=1))  # 200 steps
    for num_devices, num_steps in ((8, 100), (4, 200)):
        params = fit(config_of(folder, num_devices=num_devices, num_steps=num_steps))
    for name, place_of in (("one device", alone), ("8 devices, then 4", folder)):
        lines = Path(place_of, "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        losses = [json.loads(line)["loss"] for line in lines]
        curves[name] = np.convolve(losses, np.full(10, 0.1), "valid")
    shards = [list(one.data.shape) for one in params["w1"].addressable_shards]
    print(f"w1 is f32[64, 32]; each of {len(shards)} devices holds {shards[0]} of it.")
    print(f"Of the held-out digits, {accuracy(params):.0%} are recognised.")
    draw_losses(curves, "loss, a mean of 10 steps", "One run on two machines")


# %% [markdown]
# `write_script("pipeline.py", run_fit)` turns it into a script for one GPU, or for a
# cluster with `num_devices` devices in all processes (`cluster` makes it call
# `jax.distributed.initialize()`):
#
# ```
# python pipeline.py '{"directory": "/tmp/run", "num_devices": 1}'
# srun python pipeline.py '{"directory": "/shared/run", "num_devices": 8}' cluster
# ```
#
# The grown-up version, `solutions/references/full_pipeline.py`, also keeps the best
# checkpoint, and saves and exits on SIGTERM, with which a cluster reclaims its machines
# (`docs/training.md`).

# %% [markdown]
# ## 8. What takes the time?
#
# **Predict, then run.** Below, the host takes 20 ms to make each batch, and your step
# takes time, too. One loop reads each loss at once, as `print(float(loss))` does; the
# other reads it one step late, as `write` does. What share of the first loop's time does
# the second one take?


# %%
def first_batch(hidden=2048):  # a classifier large enough to take time, and its rows
    digits, mesh = tuple(a[:512] for a in digit_images(held_out=False)), make_mesh(8)
    params = init_params(jax.random.key(0), hidden)
    state = {"params": params, "opt_state": make_sgd().init(params)}
    state = jax.device_put(state, NamedSharding(mesh, P()))
    return state, jax.device_put(digits, NamedSharding(mesh, P("data")))


def seconds(step, steps_late, num_steps=20):
    (state, batch), waiting = jax.block_until_ready(first_batch()), []
    start = time.perf_counter()
    for _ in range(num_steps):
        time.sleep(0.02)  # the host makes a batch
        state, metrics = step(state, batch)
        waiting.append(metrics["loss"])
        while len(waiting) > steps_late:
            float(waiting.pop(0))
    jax.block_until_ready(state)
    return time.perf_counter() - start


# %%
@needs("make_train_step")
def _():
    step = make_train_step(digits_loss, make_sgd(), make_mesh(8), 1)
    jax.block_until_ready(step(*first_batch()))  # compiled before anything is timed
    names = {"loss read at once": 0, "loss read one step late": 1}
    speeds = {
        name: 1000 / 20 * min(seconds(step, steps_late) for _ in range(3))
        for name, steps_late in names.items()
    }
    draw_speeds(speeds, "ms a step", "Your step, its losses read sooner or later")


# %% [markdown]
# Read at once, the two times add up. Read one step late, they overlap: at best, only the
# longer one counts. (Here, on shared cores, 0.6 to 0.9 of the time.)
#
# Where a step itself is slow, look inside: `jax.profiler.trace(directory)` records what
# each device did.


# %%
@needs("make_train_step")
def _():
    step = make_train_step(digits_loss, make_sgd(), make_mesh(8), 4)
    state, _ = step(*first_batch())
    folder, (_, batch) = tempfile.mkdtemp(), first_batch()
    with jax.profiler.trace(folder):
        for number in range(3):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                state, _ = jax.block_until_ready(step(state, batch))
    draw_profile(folder, "Three of your steps, each of four microbatches")


# %% [markdown]
# In each step you see your loop (four microbatches, mostly one bar), then its one sync,
# where a device that is early waits for the slowest, and last the optimizer.

# %% [markdown]
# ## 9. All together
#
# How can a run that is killed still end with exactly the model that it would have had?
#
# **Predict, then run.** One run trains 200 steps undisturbed. The other is killed at
# step 130, by SIGKILL, and started again. How many bits of its parameters differ in the
# end?

# %%
two_axes = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def restored_by_columns(directory):  # of a run; each matrix split over "model"
    with open_manager(f"{directory}/checkpoints") as manager:
        shapes = saved_shapes(manager, manager.latest_step())
    columns = {2: P(None, "model")}
    specs = jax.tree.map(lambda leaf: columns.get(leaf.ndim, P()), shapes)
    return restore_elsewhere(f"{directory}/checkpoints", two_axes, specs)["params"]


# %%
@needs(
    *("batches", "make_train_step", "mixed_precision_loss"),
    *("restore_state", "restore_elsewhere", "fit"),
)
def _():
    straight, killed = tempfile.mkdtemp(), tempfile.mkdtemp()
    write_script(script := Path(killed, "pipeline.py"), run_fit)
    run = {"mixed": True, "num_steps": 200}
    print("undisturbed:", run_script(script, run | {"directory": straight}))
    print(
        "one is killed:", run_script(script, run | {"directory": killed, "cut_at": 130})
    )
    print("once more:", run_script(script, run | {"directory": killed}))
    one, two = (restored_by_columns(folder) for folder in (straight, killed))
    bits = jax.tree.map(lambda a, b: np.array_equal(*map(np.asarray, (a, b))), one, two)
    print(f"bit by bit the same parameters: {all(jax.tree.leaves(bits))}")
    print(f"more than 95% of unseen digits recognised: {accuracy(two) > 0.95}")
    draw_array(two["w2"], "w2 for serving, its columns over model:")


# %% [markdown]
# Nothing differs: a batch depends on the step alone, the checkpoint holds what else a
# step reads, and equal devices (GPUs: with section 6's flag) compute equal bits. Before
# you leave a run alone overnight, go through this list; your checks tick its lines.

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
# - A checkpoint holds everything that the next step reads.
# - One that cannot be read is a reason to stop, not to tidy up.
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
# <details><summary>Different parameters in the end, and perhaps a bump in the loss</summary>
#
# Right. It is a different run, and without a bump only the parameters show it.
#
# </details>
# <details><summary>The same run, since the parameters are the same</summary>
#
# AdamW's moments decide about each update, too.
#
# </details>

# %% [markdown]
# **2. One of sixteen processes dies. The others...**
#
# <details><summary>go on with a smaller batch</summary>
#
# The compiled program cannot shrink.
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
# - On SLURM, Kubernetes and TPU pods: `docs/clusters.md` here.
# - [MaxText](https://github.com/AI-Hypercomputer/maxtext) trains language models with
#   these parts; [Orbax](https://orbax.readthedocs.io/) saves checkpoints.
# - The [scaling book](https://jax-ml.github.io/scaling-book/).
# - `solutions/references/sharded_pipeline.py`: the smallest pipeline.

# %% [markdown]
# **Your score.** Save the notebook, then run `make grade` in a terminal: it grades the
# saved file as a teacher would.

# %% scorecard=true

# %% [markdown]
# ---
#
# ## Going further
#
# What follows takes about 110 minutes; first run all cells above again. Exercises 5.7
# to 5.9 count like those before.
#
# Tensor parallelism (lesson 4) sends activations in every layer. That suits eight GPUs
# of one machine, which talk at 450 GB/s each, and not two machines with 50 GB/s per
# network card. A **pipeline** sends least: it gives each device whole layers, a
# *stage*, and only the activations between two stages travel. Llama 3 405B used 16
# stages. Around them, between machines, it used FSDP, since weights can be fetched
# ahead.
#
# How do you train a transformer in this way, and what does it cost?
#
# <!-- H100: 450 GB/s one way over NVLink, 400 Gbit/s per network card (NVIDIA DGX H100,
# 2023). Order [TP, CP, PP, DP] with FSDP outermost and 16 stages: arXiv 2407.21783,
# section 3.3.2 and table 4. -->

# %% [markdown]
# ## 10. A language model
#
# Its text is made up: in each sentence the words are drawn evenly, but *she* or *he*
# follows from a name about 25 letters before. So the model has to look back, and we
# know how well the best model can do: no loss on new text is below the text's entropy.

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


def plain_layers(layer, params, x):  # all layers in turn; params: (L, ...)
    return jax.lax.scan(lambda x, own: (layer(own, x), None), x, params)[0]


def layer_shapes(num_layers, width, heads):
    size = width // heads
    shapes = {"qkv": (width, 3, heads, size), "out": (heads, size, width)}
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width)}
    return {name: (num_layers, *shape) for name, shape in shapes.items()}


# %% [markdown]
# ### Exercise 5.7: run_layers
#
# For the gradient, a `scan` over layers keeps everything that each layer computed: for 32
# layers of width 4,096 and 8,192 tokens in 16 bits, 36.5 GB without the scores of
# attention ([Korthikanti et al.](https://arxiv.org/abs/2205.05198)). Keep only each
# layer's *input*, and it is 2.1 GB. The rest is computed again in the backward pass, for
# a quarter to a third more arithmetic. This is **activation checkpointing**, or *remat*.
#
# Write `run_layers(layer, params, x)`. It returns the result of applying L layers in
# turn to `x`, as `plain_layers` does. `params` is a tree of stacked arrays (L, ...);
# `layer(own, x)` takes one layer's part of it and returns an array like `x`.
#
# ```python
# y = run_layers(block, params, h)  # params: layers as in layer_shapes; h, y: f32[B, T, W]
# ```
#
# <!-- 34 bytes for each token and unit of the width, with fused attention: arXiv
# 2205.05198, section 4.1, May 2022; 32 x 4,096 x 8,192 x 34 = 36.5 GB, x 2 = 2.1 GB. -->
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
# Between all and nothing, `jax.checkpoint(layer, policy=...)` keeps what you choose,
# for example the results of matrix products.
#
# Below, two layers of an 8-billion-parameter model are traced, from shapes alone.


# %%
def priced(run):  # costs of forward and gradient in FLOPs; bytes kept in between
    def forward(params, x):
        return run(block, params, x)

    def loss(params, x):
        return forward(params, x).astype(jnp.float32).mean()

    shapes = {name: to16(s) for name, s in layer_shapes(2, 4096, 32).items()}
    given = shapes, to16((4, 2048, 4096))
    lowered = [jax.jit(f).lower(*given) for f in (forward, jax.grad(loss))]
    once, both = (one.cost_analysis()["flops"] for one in lowered)
    kept = jax.eval_shape(lambda *own: jax.vjp(forward, *own)[1], *given)
    kept = num_bytes(kept) - num_bytes(shapes)
    return both / once - 1, float(f"{kept:.0e}")  # in more digits versions differ


def num_bytes(tree):
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def to16(shape):
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


# %%
@needs("run_layers")
def _():
    for name, run in (("a plain scan", plain_layers), ("yours", run_layers)):
        times, kept = priced(run)
        print(f"{name}: the backward pass costs {times:.1f} times the forward pass,")
        print(f"  and about {kept / 1e9:g} GB of activations wait for it")


# %% [markdown]
# The plain scan keeps 5 GB of a layer, not 36.5 / 32 = 1.1: attention scores and the
# steps inside GELU count here, which fused kernels do not store. Your backward pass costs
# 2.7, not 3: a layer's last product is not needed again.

# %% [markdown]
# ## 11. A pipeline
#
# A pipeline has a price: idle time. Device 1 cannot begin before device 0 has finished,
# so the batch is cut into microbatches that follow each other: the **GPipe** schedule
# ([Huang et al., 2018](https://arxiv.org/abs/1811.06965)). A *tick* is the time in which
# a stage works on one microbatch.

# %%
draw_schedule(4, 8, "Four stages, eight microbatches")

# %% [markdown]
# S stages need M + S - 1 ticks for M microbatches, and each stage works in M of them.
# The rest is the **bubble**, (S - 1) / (M + S - 1) of the time: for 16 stages and 16
# microbatches 15/31, nearly half; for 128 microbatches 15/143, a tenth.

# %% [markdown]
# ### Exercise 5.8: pipeline_forward
#
# In SPMD there is one program for all devices, which runs M + S - 1 ticks; what differs
# is `axis_index`, and what arrives from the left.
#
# Write `pipeline_forward(stage, stage_params, microbatches)` with `shard_map`. It
# returns the result of applying the S stages in turn to each of M microbatches:
# `stage(own, x)` takes one stage's part of the parameters and returns an array like `x`.
# `make_mesh(S)` makes the mesh; its axis is "data".
#
# ```python
# def stage(own, x):               # w: f32[8, 8], b: f32[8]; x: f32[5, 8]
#     return jnp.tanh(x @ own["w"] + own["b"])
#
#
# params = {"w": w, "b": b}        # f32[4, 8, 8], f32[4, 8]: four stages
# y = pipeline_forward(stage, params, x)  # x, y: f32[6, 5, 8], six microbatches
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


# %% exercise="pipeline_forward" minutes=30 difficulty=3
def pipeline_forward(stage, stage_params, microbatches):
    """Computes a pipeline's results by the GPipe schedule.

    Args:
        stage: (own, x) -> an array like x.
        stage_params: a tree of f32 (S, ...); `own` holds (...).
        microbatches: f32 (M, B, ...), finite.

    Returns:
        f32 (M, B, ...).
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

    last = len(jax.tree.leaves(stage_params)[0]) - 1
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
#   with `out_specs=P("data")` and take the last device's.

# %% check="pipeline_forward"

# %% [markdown] built="pipeline_forward"
# In the bubble your devices compute garbage that nobody looks at.
# Below, your pipeline runs the transformer: four stages of two layers each.
#


# %%
def stages_of(num_layers):  # parameters of four stages with so many layers: (4, L, ...)
    rng, shapes = np.random.default_rng(0), layer_shapes(num_layers, 48, 4)
    return {
        name: np.float32(rng.normal(size=(4, *shape)) / 8)
        for name, shape in shapes.items()
    }


@needs("pipeline_forward")
def _():
    def stage(own, h):
        return plain_layers(block, own, h)

    params, rng = stages_of(2), np.random.default_rng(1)
    h = wanted = np.float32(rng.normal(size=(8, 2, 48, 48)))  # eight microbatches
    run = jax.jit(lambda params, h: pipeline_forward(stage, params, h))
    for s in range(4):
        own = jax.tree.map(lambda a, s=s: a[s], params)
        wanted = jax.vmap(stage, (None, 0))(own, wanted)
    sends = [one for one in collectives(run, params, h) if "permute" in one.kind]
    print(f"a device sends {sum(one.times for one in sends)} times; M + S - 1 = 11")
    print(f"as without a pipeline: {np.allclose(run(params, h), wanted, atol=1e-4)}")


# %% [markdown]
# ## 12. A schedule for training
#
# For a gradient, each stage also goes **backward** over each microbatch, from the last
# stage to the first. Until then it keeps what its forward pass computed.
#
# A schedule says what each stage does when: `schedule[tick][stage]` is `("F", m)`,
# forward over microbatch m, `("B", m)`, backward, or `None`. GPipe, as `jax.grad` of 5.8
# does, goes forward over all microbatches, then backward.
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
# Every stage keeps all six. So GPipe is in a dilemma: more microbatches of one size make
# the bubble smaller, and the memory larger. **1F1B**, one forward, one backward
# ([PipeDream-Flush](https://arxiv.org/abs/2006.09503),
# [Megatron](https://arxiv.org/abs/2104.04473)'s default), goes backward over a microbatch
# as soon as it can. Its bubble is the same. But stage s keeps at most S - s microbatches.
#
# `run_schedule` below puts stage s on device s and does what each tick says.


# %%
@functools.partial(jax.jit, static_argnums=0)
def forward(stage, own, x):  # the stage's result, and what its backward needs
    return jax.vjp(stage, own, x)


@jax.jit
def backward(pull, grad):
    return pull(grad)


@functools.partial(jax.jit, static_argnums=0)
def slope(loss_fn, y, target):
    return jax.value_and_grad(loss_fn)(y, target)


# %%
def run_schedule(schedule, stages, loss_fn, params, xs, targets):
    last, devices = len(params) - 1, jax.devices()
    params = [jax.device_put(own, devices[s]) for s, own in enumerate(params)]
    sent = {("F", m, 0): x for m, x in enumerate(xs)}
    kept, grads, losses = {}, [None] * len(params), [None] * len(xs)
    for tick in schedule:
        for s, turn in ((s, turn) for s, turn in enumerate(tick) if turn):
            kind, m = turn[0], int(turn[1])
            x = jax.device_put(sent.pop((kind, m, s)), devices[s])
            if kind == "F":
                y, kept[s, m] = forward(stages[s], params[s], x)
                if s < last:
                    sent["F", m, s + 1] = y
                else:
                    losses[m], sent["B", m, s] = slope(loss_fn, y, targets[m])
            else:
                grad, sent["B", m, s - 1] = backward(kept.pop((s, m)), x)
                grads[s] = jax.tree.map(jnp.add, grads[s], grad) if grads[s] else grad
    return losses, grads  # of each microbatch; summed over them, for each stage


# %% [markdown]
# ### Exercise 5.9: one_f_one_b
#
# Write `one_f_one_b(num_stages, num_microbatches)`. It returns a schedule of S stages
# and M microbatches in the form of `gpipe`: a list of ticks, each a list of S entries.
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
# - For S = 4, write down the ticks of F 0, F 1, B 0 and B 1 on each stage: both kinds
#   grow by the same step in m.

# %% check="one_f_one_b"

# %% [markdown] built="one_f_one_b"
# Megatron-LM keeps each stage's order only: the arrival of data decides the ticks.


# %%
@needs("one_f_one_b")
def _():
    draw_turns(one_f_one_b(4, 8), "Your schedule, eight microbatches")
    for name, made in (("GPipe", gpipe(16, 128)), ("yours", one_f_one_b(16, 128))):
        text = f"{name}, 128 microbatches on 16 stages: {len(made)} ticks"
        print(f"{text}, stage 0 keeps {most_kept(made, 0)}")


# %% [markdown]
# *Zero-bubble* schedules ([ZB-H1](https://arxiv.org/abs/2401.10241)) split a backward
# turn in two. The stage before waits only for `B`, the gradient of this stage's input.
# For `W`, that of its weights, nobody waits: it fills a gap. `clocked` does so with
# your schedule, and keeps a microbatch until its `W` is done. A backward turn takes 2
# forward turns, 2.7 with remat (section 10). You need not read the next two cells.
#
# **Predict, then run.** What does the split save, without and with remat?


# %%
def is_free(own):  # when a stage with these bars, (start, length, text), is free
    return sum(own[-1][:2]) if own else 0


def add(own, costs, kind, m, ready=0):
    own.append((max(ready, is_free(own)), costs[kind], f"{kind}{m}"))
    return is_free(own)


def kept_over_time(bars, end, frees):  # microbatches that each stage keeps
    def kept(own, time):
        begun = sum(text[0] == "F" and start <= time for start, _, text in own)
        return begun - sum(t[0] == frees and start + n <= time for start, n, t in own)

    return [[kept(own, time) for own in bars] for time in np.arange(0, end, 0.5)]


# %%
def clocked(schedule, costs):  # the bars of each stage, and when the last one ends
    done, stages = {}, len(schedule[0])
    bars, waiting = ([[] for _ in range(stages)] for _ in range(2))
    for tick in schedule:
        for s, (kind, m) in ((s, turn) for s, turn in enumerate(tick) if turn):
            ready = done.get((kind, m, s - 1 if kind == "F" else s + 1), 0)
            while waiting[s] and (
                is_free(bars[s]) + costs["W"] <= ready  # in a gap
                or (kind == "F" and m - waiting[s][0] >= stages)  # to free memory
            ):
                add(bars[s], costs, "W", waiting[s].pop(0))
            done[kind, m, s] = add(bars[s], costs, kind, m, ready)
            if kind == "B" and "W" in costs:
                waiting[s].append(m)
    for own, left in zip(bars, waiting, strict=True):
        for m in left:
            add(own, costs, "W", m)
    return bars, max(map(is_free, bars))


# %%
turns = {
    "Yours": {"F": 1.0, "B": 2.0},
    "Split": {"F": 1.0, "B": 1.0, "W": 1.0},
    "Yours, remat": {"F": 1.0, "B": 2.7},
    "Split, remat": {"F": 1.0, "B": 1.7, "W": 1.0},  # W uses what B computed again
}


@needs("one_f_one_b")
def _():
    for name, costs in turns.items():
        bars, end = clocked(one_f_one_b(4, 8), costs)
        kept = kept_over_time(bars, end, "W" if "W" in costs else "B")
        idle, top = 1 - 8 * sum(costs.values()) / end, np.max(kept, axis=0).tolist()
        print(f"{name:12} {end:.1f} forward turns, {idle:.0%} idle; stages keep {top}")
        if "remat" not in name:
            rows = {f"stage {s}": own for s, own in enumerate(bars)}
            x, label = np.arange(0, end, 0.5), "time in forward turns"
            draw_timeline(rows, label, name)
            title = f"{name}: microbatches that stage d, on device d, keeps"
            draw_replicas(kept, "microbatches", title, xlabel=label, x=x)


# %% [markdown]
# The split fills most of the gaps, and now every stage keeps four microbatches, not only
# the first. With remat we assumed that what `B` computed again is kept until its `W`:
# memory again.

# %% [markdown]
# ## 13. The model, trained in your pipeline
#
# Each of four devices holds one layer, which your `run_layers` runs; the first also has
# the embedding, the last the logits. Your schedule trains them, four microbatches in
# each step. In the end your `pipeline_forward` writes.
#
# **Predict, then run.** How close to the text's entropy will the loss come? (A row begins
# anywhere in a sentence, so its first letters, and sometimes the name, cannot be known.)


# %%
def stage(own, h):  # the layers of one device
    return run_layers(block, own, h)


def first(own, x):  # x: f32[B, T, letters], one-hot
    return stage(own["layers"], x @ own["letters"] + own["places"])


def middle(own, h):
    return stage(own["layers"], h)


def final(own, h):
    return normed(middle(own, h)) @ own["logits"]


def text_loss(logits, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def first_stages():  # the parameters of each stage
    rng, layers, count = np.random.default_rng(1), stages_of(1), len(LETTERS)
    stages = [{"layers": jax.tree.map(lambda a, s=s: a[s], layers)} for s in range(4)]
    for own, sizes in (
        (stages[0], {"letters": (count, 48), "places": (48, 48)}),
        (stages[3], {"logits": (48, count)}),
    ):
        own |= {name: np.float32(rng.normal(size=s) / 8) for name, s in sizes.items()}
    return stages


# %%
def text_batches(num_steps):  # four microbatches of four rows a step
    x, y = text_rows(2048)
    for step in range(num_steps):
        rows = (16 * step + np.arange(16)) % len(x)
        xs, ys = (a[rows].reshape(4, 4, 48) for a in (x, y))
        yield np.eye(len(LETTERS), dtype=np.float32)[xs], ys


def train_text(schedule, num_steps):  # each stage steps on its own device
    optimizer, losses = optax.adam(0.005), []
    params = [*map(jax.device_put, first_stages(), jax.devices())]
    states = [{"params": own, "opt_state": optimizer.init(own)} for own in params]
    update = jax.jit(functools.partial(updated, optimizer))
    program = schedule, [first, middle, middle, final], text_loss
    for xs, ys in text_batches(num_steps):
        params = [state["params"] for state in states]
        found, grads = run_schedule(*program, params, xs, ys)
        grads = [jax.tree.map(lambda g: g / 4, own) for own in grads]
        states = [update(*pair) for pair in zip(states, grads, strict=True)]
        losses.append(np.mean([float(loss) for loss in found]))
    return params, np.array(losses)


# %%
def logits_of(stages, xs):  # by your pipeline; xs: f32[M, B, T, letters], one-hot
    layers = jax.tree.map(lambda *a: jnp.stack(a), *[own["layers"] for own in stages])
    h = xs @ stages[0]["letters"] + stages[0]["places"]
    return normed(pipeline_forward(stage, layers, h)) @ stages[3]["logits"]


def write_on(text, stages):  # the most likely letters, up to the next full stop
    stages, logits = jax.tree.map(np.asarray, stages), jax.jit(logits_of)
    while not text.endswith(".") and len(text) < 48:
        row = [LETTERS.index(letter) for letter in text.ljust(48)]
        row = np.eye(len(LETTERS), dtype=np.float32)[None, None, row]
        text += LETTERS[int(logits(stages, row)[0, 0, len(text) - 1].argmax())]
    return text


# %%
@needs("run_layers", "pipeline_forward", "one_f_one_b")
def _():
    [(xs, ys)] = text_batches(1)
    program = one_f_one_b(4, 4), [first, middle, middle, final], text_loss
    losses, _ = run_schedule(*program, first_stages(), xs, ys)
    wanted = text_loss(jax.jit(logits_of)(first_stages(), xs), ys)
    same = np.allclose(np.mean([float(loss) for loss in losses]), wanted, rtol=1e-4)
    print(f"schedule and pipeline give the same loss: {same}")


# %%
@needs("run_layers", "pipeline_forward", "one_f_one_b")
def _():
    params, losses = train_text(one_f_one_b(4, 4), 200)
    for text in ("eve sees two old birds, ", "max needs five blue books, "):
        is_known = write_on(text, params) in (f"{text}she smiles.", f"{text}he smiles.")
        print(f'"{text}..." goes on with "she smiles." or "he smiles.": {is_known}')
    stops = np.mean(text_rows(2048)[0] == LETTERS.index("."))
    share = sum(np.log(len(row)) for row in WORDS) * stops  # of each letter
    smooth = np.convolve(losses, np.full(10, 0.1), "valid") / share
    curves = {"training, a mean of 10 steps": smooth, "the text": np.ones(len(smooth))}
    curves["uniform guess"] = np.full(len(smooth), np.log(len(LETTERS)) / share)
    draw_losses(curves, "loss / the text's entropy", "Trained in your pipeline")


# %% [markdown]
# The loss comes down to about 1.4 times the entropy. On such cut rows no model gets below
# about 1.25; guessing *she* or *he* makes it about 1.3. Your model writes sentences, but
# that is still a guess: to look back 25 letters takes longer training
# (`full_pipeline.py --model transformer`).
#
# You began this course with one array on eight devices. Now you can write each part of
# a program that trains a language model on thousands. `docs/what-next.md` says where to
# go from here.
