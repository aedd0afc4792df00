# %% [markdown]
# # Lesson 1. pmap: one program, many devices
#
# COLAB_BADGE
#
# You rent a machine with eight H100 GPUs, start your training script, and look at the
# monitor: one GPU computes, and seven wait. Nothing is broken. JAX puts an array on the
# first device unless you say otherwise, and computes where the array is. **How do you
# give all eight devices something to do, and how do you know that they do it?**
#
# This lesson answers on your laptop, on eight devices that JAX simulates.
#
# **You need** NumPy, and a first look at `jax.jit`, `jax.grad` and `jax.vmap`.
# **Time**: about 90 minutes for four exercises, with a pause; then "Going further", a
# second part of 45 minutes.

# %% setup=true

# %%
num_devices = jax.device_count()  # 8, unless you run on real devices
draw_devices()

# %% [markdown]
# ## 1. One function on every device
#
# `jax.pmap(f)` runs `f` on several devices at once. The **leading axis** of the data
# says who gets what: from `x: f32[8, 2]`, an array of 32-bit floats with 8 rows, device
# 3 receives `x[3]: f32[2]`. The function is written for one device's row.
#
# **Predict, then run.** What shape will `y` have? (Where a cell has `guess = None`,
# write your guess: the scorecard at the end counts the right ones.)


# %%
guess = None  # your prediction, such as "(4, 3)"


def f(x):  # x: f32[2], one device's row
    return x**2 + jnp.sin(x)


x = np.linspace(0, 3, 2 * num_devices, dtype=np.float32).reshape(num_devices, 2)
y = jax.pmap(f)(x)
print("x:", x.shape, "  y:", y.shape)
print("same numbers as f on all rows at once:", np.allclose(y, f(x)))
draw_pmap("f", {"x": x}, {"y": y})
prediction("the shape of y", str(y.shape), guess)

# %% [markdown]
# Now you. Below each exercise is one line, which shows a card: what holds, and what
# does not. Rows in **bold** are essential: together they are worth half of the points,
# and if one of them fails, the exercise earns nothing. The other rows share the other
# half.
#
# Every function that you write in this lesson must obey two rules.
#
# - [arguments stay] It does not modify, delete or donate its arguments. (Trainers donate
#   the old state, whose memory JAX then reuses: lesson 4.)
# - [nothing is remembered] Its result depends on its arguments alone, not on earlier
#   calls.

# %% [markdown]
# ### Exercise 1.1: shard_batch
#
# Real data has no device axis yet: a batch of 128 images with 784 pixels each is
# `f32[128, 784]`. To give each device 16 of them, cut the first axis in two: `f32[8,
# 16, 784]`. Same model on every device, a different part of the batch on each: this is
# **data parallelism**, the way in which most training is distributed.
#
# A batch is rarely a single array. It is a *pytree*: NumPy or JAX arrays in dicts, lists
# and tuples, possibly nested, whose first axes all have the same length `B`.
#
# Write `shard_batch(batch, num_devices)`. It cuts each array `(B, ...)` of the batch
# into `(num_devices, B / num_devices, ...)`. Only cut: `pmap` places the result later,
# so `num_devices` may exceed the number of your devices.
#
# ```python
# batch = {"image": images, "label": labels}     # f32[128, 784] and i32[128]
# shard_batch(batch, 8)                          # f32[8, 16, 784] and i32[8, 16]
# ```
#
# - [rows in order] Device 0 gets the first `B / num_devices` rows, device 1 the next
#   ones, and so on.
# - [same structure] The same dicts, lists and tuples come back, or a single array. Each
#   array keeps its dtype.
# - [uneven batch] If `B` is not a multiple of `num_devices`, it raises a `ValueError`
#   rather than lose rows.


# %% exercise="shard_batch" minutes=10 difficulty=1
def shard_batch(batch, num_devices):
    """Splits the leading axis of every array in `batch` over the devices.

    Args:
        batch: pytree of arrays (B, ...).
        num_devices: number of blocks, 1 or more.

    Returns:
        The same tree with arrays (num_devices, B / num_devices, ...).
    """

    ### BEGIN SOLUTION
    # `jax.tree.map` walks through any nesting, so only one array needs thought. A reshape
    # moves no data and keeps the rows in order. Flax's `shard` is this reshape with a -1,
    # which leaves the error to NumPy; ours says what is wrong with the batch.
    def split(x):
        if len(x) % num_devices:
            raise ValueError(f"{len(x)} rows do not divide over {num_devices} devices")
        return x.reshape(num_devices, len(x) // num_devices, *x.shape[1:])

    return jax.tree.map(split, batch)
    ### END SOLUTION


# %% [markdown] hints="shard_batch"
# - `jax.tree.map(g, batch)` applies `g` to every array of a tree, however nested.
# - For one array: `x.reshape(num_devices, len(x) // num_devices, *x.shape[1:])`. Look
#   at the remainder first.

# %% check="shard_batch"

# %% [markdown] built="shard_batch"
# In old training loops this is the line between the loader and the step; Flax calls it
# [`shard`](https://flax.readthedocs.io/en/v0.8.3/_modules/flax/training/common_utils.html).
# A last batch that is no multiple of the devices is dropped, or filled up and masked
# (exercise 2.1).

# %% [markdown]
# A check judges your function as it was **last run**: after a change, run the
# exercise's cell, then its check. The code after *again* repeats a failed call: paste
# it into a cell to look into it.
#
# The next cell runs **your function**. There is one below each exercise; until the
# essential rows hold, it only says so.


# %%
@needs("shard_batch")
def _():
    images = np.random.default_rng(0).random((16 * num_devices, 784), np.float32)
    blocks = shard_batch({"image": images}, num_devices)
    means = jax.pmap(lambda block: block["image"].mean())(blocks)
    draw_pmap("mean", {"batch": blocks}, {"means": means})
    agree = np.allclose(np.mean(means), images.mean(), rtol=1e-4)
    print("The mean of the devices' means is the mean of the batch:", agree)


# %% [markdown]
# ## 2. Eight devices out of one CPU
#
# XLA, the compiler below JAX, reads the environment variable `XLA_FLAGS` **once**: when
# JAX first touches a device. The flag `--xla_force_host_platform_device_count=8`, which
# the notebook's first cell sets, splits the CPU into eight devices.
#
# **Predict, then run.** The cell starts two fresh Python processes. Both set the flag
# after `import jax`, but the first one has counted its devices before. What will each
# print?

# %%
import os
import subprocess
import sys

COUNT = "len(jax.devices('cpu'))"
SET = 'os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"'
TOO_LATE = f"import os, jax; {COUNT}; {SET}; print({COUNT})"
IN_TIME = f"import os, jax; {SET}; print({COUNT})"


def run_child(program, env):
    command = [sys.executable, "-c", program]
    child = subprocess.run(command, env=env, capture_output=True, text=True)
    return child.stdout.strip()


ours = {"XLA_FLAGS", "JAX_NUM_CPU_DEVICES"}  # what decides the number of devices
clean = {key: value for key, value in os.environ.items() if key not in ours}
print("set after JAX has started:", run_child(TOO_LATE, clean), "device(s)")
print("set before its first use: ", run_child(IN_TIME, clean), "device(s)")

# %% [markdown]
# **Common mistake: the flag that comes too late.** Nothing failed in the first process.
# It would have trained on one device, and nobody would have noticed.
# (`jax.config.update("jax_num_cpu_devices", 8)` raises there.) So programs are *launched*
# with the right environment.

# %% [markdown]
# ### Exercise 1.2: launch_env
#
# This is how code for eight GPUs is tested where there are none, on a laptop or in CI:
# the test is launched on simulated devices. But `XLA_FLAGS` is one string for all flags.
# A launcher that overwrites it, as both processes above do, throws away a colleague's
# debugging flags.
#
# <!-- JAX_NUM_CPU_DEVICES goes before the flag: jax/_src/xla_bridge.py of JAX 0.7.2,
# 0.10.2 and 0.12.0; run on all three in November 2026. -->
# Write `launch_env(num_devices, env)`. It returns a copy of the dict `env` for a new
# process, in which `XLA_FLAGS` asks for `num_devices` CPU devices. In `env`,
# `XLA_FLAGS` may be missing, and may hold several earlier counts.
# (`JAX_NUM_CPU_DEVICES` would override the flag. It is not in `env`.)
#
# ```python
# count = "--xla_force_host_platform_device_count="
# env = {"HOME": "/home/ada", "XLA_FLAGS": f"--xla_dump_hlo_as_text {count}2"}
# launch_env(4, env)["XLA_FLAGS"]     # f"--xla_dump_hlo_as_text {count}4"
# ```
#
# - [device count] A fresh Python process in this environment has `num_devices` CPU
#   devices.
# - [other flags] All other flags in `XLA_FLAGS` are kept.
# - [other variables] All other variables are kept.
# - [no old count] Earlier device counts are gone from `XLA_FLAGS`.
# - [below one] `num_devices` below 1 raises a `ValueError`.


# %% exercise="launch_env" minutes=10 difficulty=1
def launch_env(num_devices, env):
    """Returns a copy of `env` that gives a fresh process `num_devices` CPU devices.

    Args:
        num_devices: how many, at least 1.
        env: dict of str to str; XLA_FLAGS in it holds flags separated by spaces.
    """
    ### BEGIN SOLUTION
    # A list of flags is easier to change safely than a string. The last of several equal
    # flags wins, so appending would do for XLA; the old one is removed for people and
    # programs that read the environment. `{**env, ...}` makes the copy.
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count="
    flags = env.get("XLA_FLAGS", "").split()
    flags = [flag for flag in flags if not flag.startswith(name)]
    flags.append(f"{name}{num_devices}")
    return {**env, "XLA_FLAGS": " ".join(flags)}
    ### END SOLUTION


# %% [markdown] hints="launch_env"
# - `XLA_FLAGS` holds flags separated by spaces: `str.split` and `" ".join` help.
# - Keep the flags that do not start with `--xla_force_host_platform_device_count=`,
#   then append your own. `{**env, "XLA_FLAGS": text}` is a new dict.

# %% check="launch_env"

# %% [markdown] built="launch_env"
# On a machine with GPUs, set `JAX_PLATFORMS=cpu` as well, and JAX uses the CPU's devices.
# So a laptop can test whether a program is right on 256 devices, but not how fast it is.


# %%
@needs("launch_env")
def _():
    test = (
        "import jax, jax.numpy as jnp\n"
        "y = jax.pmap(jnp.sin)(jnp.arange(16.0))\n"
        "assert len(y.sharding.device_set) == 16\n"
        "print('passed')"
    )
    said = run_child(test, launch_env(16, clean)) or "failed"
    print(f"A test that needs 16 devices, in the process that you launched: {said}")
    print(f"Devices of this notebook's process: {jax.device_count()}, as before")


# %% [markdown]
# ## 3. Who did the work?
#
# To you, `y` of section 1 is one array of shape `(8, 2)`, but it is not in one place.
# Its rows, its **shards**, stay on the devices that computed them; `np.asarray(y)` or
# `print(y)` fetches a copy. `y.sharding` describes the layout; each of
# `y.addressable_shards` has a `device`, an `index` and its `data`;
# `jax.debug.visualize_array_sharding(y)` (with the package `rich`) and this course's
# `draw_array` draw it.
#
# **One row per device** means more than this layout: row `d` is computed on device `d`,
# which is `jax.devices()[d]`, and it stays there.

# %%
for shard in y.addressable_shards:
    row, shape = shard.index[0].start, shard.data.shape
    print(f"device {shard.device.id} holds row {row}, a block of shape {shape}")
draw_array(y, "y = pmap(f)(x)")

# %% [markdown]
# `jax.vmap(f)` also maps a function over a leading axis. It turns each operation of `f`
# into one larger operation, which runs where its input is.
#
# **Predict, then run.** How many devices hold a part of `vmap`'s result?

# %%
guess = None  # your prediction
by_vmap = jax.vmap(f)(x)
print("same numbers:", np.allclose(by_vmap, y))
print("vmap: on", len(by_vmap.sharding.device_set), "device(s)")
print("pmap: on", len(y.sharding.device_set), "device(s)")
prediction(
    "devices with a part of vmap's result", len(by_vmap.sharding.device_set), guess
)

# %% [markdown]
# One device did all the work, and the numbers do not show it. **Equal numbers do not
# prove that the work was shared.** Nor does the layout alone: one device can compute a
# result and spread it afterwards.
#
# What proves it is the program. JAX does not run your Python on the devices. It runs it
# **once**, on stand-ins (*tracers*) that have a shape and a dtype but no numbers, and
# records every operation that they meet. The record is the **traced program** (a
# *jaxpr*). XLA compiles it, and the devices run the result.


# %%
def g(x):
    print("Python runs g. The stand-in for x has shape", x.shape)
    return jnp.sin(x) * x


print("Traced once by pmap, for all devices:")
jax.pmap(g)(x)
print("Traced again, for the record, and by vmap:")
program, of_vmap = jax.make_jaxpr(g)(x[0]), jax.make_jaxpr(jax.vmap(g))(x)
draw_trace("g", program, num_devices)
print("the record of vmap(g):", of_vmap)

# %% [markdown]
# Read the shapes: `pmap` records `g` on `f32[2]`, one row, and every device runs that.
# `vmap`, too, shows `g` one row, but its program computes on `f32[8, 2]`, all rows, on
# one device: JAX puts `x`, a NumPy array, on the first.
#
# The checks read the traced program, so from here on JAX must be able to trace your
# functions: compute with `jnp`. A NumPy function raises a `TracerArrayConversionError`
# there.

# %% [markdown]
# ## 4. Share the model, compile it once
#
# In training and inference the devices share the model and differ in their data. With
# `in_axes` you say so, for each argument: `0` splits its leading axis, and `None`
# *broadcasts* it, so that every device gets a full copy (it is *replicated*). One
# `None` covers a whole tree of parameters.
#
# **Predict, then run.** `total` returns a single number. What shape will `totals` have?


# %%
def predict(params, x):  # x: f32[B, F] -> f32[B, C]
    return x @ params["w"] + params["b"]


def total(params, x):
    return predict(params, x).sum()


params = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
batch = np.ones((num_devices, 4, 3), np.float32)
totals = jax.pmap(total, in_axes=(None, 0))(params, batch)
print("totals:", totals.shape, "one number per device:", totals)
draw_pmap("total", {"x": batch}, {"totals": totals}, {"params": params})

# %% [markdown]
# **Common mistake: no `in_axes`.** Then `pmap` looks for a device axis in the
# parameters, too. With luck that is a `ValueError` (about an axis
# `_internal_pmap_axis_name`). With `w: f32[8, 8]` and `b: f32[8]` there is no error:
# each device computes with one row of `w` and one number of `b`.
#
# `pmap` includes `jit`: it traces your function once for all devices, and keeps the
# compiled program for the next call. **Predict, then run.** How often is `count_traces`
# traced in the three calls of each loop?

# %%
guess = None  # your prediction, for the loop that makes a function anew
traced = 0


def count_traces(x):
    global traced
    traced += 1  # Python runs this while tracing, the devices never do
    return 2 * x


def new_function(x):  # a lambda of its own in each call
    return jax.pmap(lambda x: count_traces(x))(x)


for name, function in (("made once", jax.pmap(count_traces)), ("anew", new_function)):
    traced = 0
    for _ in range(3):
        function(np.ones((num_devices, 4), np.float32))
    print(f"{name}: traced {traced} time(s) in 3 calls")
prediction("traces of a function made anew", traced, guess)

# %% [markdown]
# **Common mistake: compiling in each call.** JAX looks a compiled program up by the
# function object. A lambda, or a function defined inside another, is a new object each
# time, so it is compiled again: right numbers, often more than a hundred times as slow.
# Call `jax.pmap` or `jax.jit` once, before the loop, and keep what it returns.

# %% [markdown]
# ## 5. Today's way: shard_map
#
# **New code should not use `pmap`.** Since JAX 0.8 it is in maintenance mode, and inside
# it is now `jax.jit` around `jax.shard_map`. This lesson begins with it all the same:
# nothing shows more simply what *SPMD* (single program, multiple data) means, and old
# code is full of it, from [Flax's
# `jax_utils`](https://flax.readthedocs.io/en/v0.8.3/_modules/flax/jax_utils.html) to
# [Brax](https://github.com/google/brax). All of this carries over. You now state four
# things that `pmap` assumed:
#
# - The **mesh** says which devices take part, and gives their axis a name: `"devices"`.
# - **`in_specs`** say how each argument is split. `P("devices")` splits its first axis
#   over that axis of the mesh, and `P()` broadcasts it. They stand for
#   `in_axes` of 0 and `None`.
# - **`out_specs`** say how the devices' results are joined into one array.
# - **`jax.jit`** goes around `shard_map`: without it, JAX runs one operation at a time.
#
# **Predict, then run.**
# `pmap` gave each device an `x` of shape `(4, 3)`. What shape does `shard_map` give it?

# %%
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def make_mesh(num_devices):  # the first devices (jax.make_mesh: lesson 4)
    return Mesh(jax.devices()[:num_devices], ("devices",))


def total_of_block(params, x):
    print("one device's block of x has shape", x.shape)
    return total(params, x)[None]


today = jax.shard_map(
    total_of_block,
    mesh=make_mesh(num_devices),
    in_specs=(P(), P("devices")),
    out_specs=P("devices"),
)
print("same as pmap:", np.allclose(jax.jit(today)(params, batch), totals))

# %% [markdown]
# `pmap` takes the mapped axis away. `shard_map` **cuts** it, so a block keeps it, here
# with length 1. The results are joined along it, which is why `total_of_block` adds an
# axis.
#
# So a batch `f32[128, 784]` needs no device axis: `shard_map` cuts it into eight blocks
# `f32[16, 784]`, and joins the results to one array of 128 rows.

# %% [markdown]
# ### Exercise 1.3: make_parallel_predict
#
# <!-- Llama 3 8B: 8.03 billion parameters x 2 bytes; arXiv 2407.21783. H100 SXM: 80 GB,
# NVIDIA's data sheet. Both read in November 2026. -->
# Inference on a large batch is the simplest program for several devices: the same
# parameters everywhere, a part of the batch on each device, and no communication. At two
# bytes each (bfloat16), the 8 billion parameters of [Llama 3
# 8B](https://arxiv.org/abs/2407.21783) take 16 GB, so each of eight H100s (80 GB) can
# hold a full copy.
#
# A server should compile once, not in each request. Write
# `make_parallel_predict(num_devices)`. It returns a function `serve(params, x)`, which
# runs `predict` of section 4 on the mesh `make_mesh(num_devices)`; `jax.shard_map` is the
# direct way. The batch `x: (B, F)` has no device axis; `B` is a multiple of
# `num_devices`.
#
# ```python
# serve = make_parallel_predict(8)
# serve({"w": w, "b": b}, x)           # w: f32[7, 5], b: f32[5], x: f32[24, 7]
#                                      # -> f32[24, 5], 3 rows on each device
# ```
#
# - [predictions] `serve(params, x)` is `predict(params, x)`, an f32 array `(B, C)`.
# - [sharded by rows] The first device computes the first `B / num_devices` rows and
#   keeps them, the second device the next ones, and so on. No device is given all rows,
#   and the devices send each other nothing.
# - [parameters broadcast] The program never puts `num_devices` copies of `w` into one
#   array.
# - [compiled once] A second batch of the same shape is served without compiling.


# %% exercise="make_parallel_predict" minutes=15 difficulty=2
def make_parallel_predict(num_devices):
    """Makes a function that predicts on many devices, with the same parameters on each.

    Args:
        num_devices: how many devices take part.

    Returns:
        `serve(params, x)`: {"w": f32 (F, C), "b": f32 (C,)} and f32 (B, F) to f32
        (B, C), sharded by rows over the mesh's axis "devices".
    """
    ### BEGIN SOLUTION
    # `predict` needs no change: it works on a batch of any size, and a block is one. With
    # pmap it is `pmap(predict, in_axes=(None, 0))`, and batches go through `shard_batch`.
    # `jit` makes one program of it, and keeps it for the next batch.
    mapped = jax.shard_map(
        predict,
        mesh=make_mesh(num_devices),
        in_specs=(P(), P("devices")),
        out_specs=P("devices"),
    )
    return jax.jit(mapped)
    ### END SOLUTION


# %% [markdown] hints="make_parallel_predict"
# - `jax.shard_map(predict, mesh=..., in_specs=..., out_specs=...)` returns a function
#   of `params` and `x`.
# - `in_specs` is a tuple with one spec for each argument of `predict`. One spec covers
#   the whole tree of parameters.
# - Parameters: `P()`. Batch and predictions: `P("devices")`. Put the mapped function
#   into `jax.jit`, and return that without calling it.

# %% check="make_parallel_predict"

# %% [markdown] built="make_parallel_predict"
# `P()` for the parameters and an axis of the mesh for the batch: this pair *is* data
# parallelism. Lesson 3 replaces `predict` by the gradient of a loss and adds one average,
# and then it trains. Try `out_specs=P()`: JAX refuses, because it cannot know that all
# devices have computed the same.


# %%
@needs("make_parallel_predict")
def _():
    serve, rng = make_parallel_predict(num_devices), np.random.default_rng(0)
    model = {"w": np.float32(rng.normal(size=(784, 10))), "b": np.zeros(10, np.float32)}
    # A copy on each device (P()), once: else NumPy arrays travel with each request.
    placed = jax.device_put(model, NamedSharding(make_mesh(num_devices), P()))
    for request in range(3):
        x = np.float32(rng.normal(size=(16 * num_devices, 784)))
        scores = serve(placed, x)
        same = np.allclose(scores, predict(model, x), rtol=1e-3, atol=1e-3)
        print(f"request {request}: {scores.shape}, as by NumPy: {same}")
    draw_array(scores, "What your server returned")


# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above.

# %% [markdown]
# ## 6. Training without talking
#
# You can now split data and share parameters. Is that enough to train? The data: `y =
# 2x - 1` plus noise, 8 points for each device. All devices start from zero, and take
# steps of gradient descent on **their own** points.
#
# **Predict, then solve.** Will every device's loss fall? Will the eight models agree at
# the end?


# %%
def mse(params, x, y):  # x: (B, F), y: (B,) -> ()
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


rng = np.random.default_rng(0)
points = np.float32(rng.normal(size=(8 * num_devices, 1)))  # no device axis yet
noise = 0.5 * rng.normal(size=8 * num_devices)
targets = np.float32(2 * points[:, 0] - 1 + noise)
start = {
    "w": np.zeros((num_devices, 1), np.float32),
    "b": np.zeros(num_devices, np.float32),
}

# %% [markdown]
# ### Exercise 1.4: local_sgd_steps
#
# <!-- 7e9 x 4 bytes = 28 GB; 2 x 7/8 of it is 49 GB; NVLink 4 450 GB/s in each
# direction (NVIDIA's data sheet of the H100): 0.11 s; 400 Gbit/s = 50 GB/s. Read in
# November 2026. -->
# Averaging the gradients of 7 billion parameters (28 GB in float32) over eight GPUs
# takes a tenth of a second within one machine, but a whole second over a fast network,
# in every step. **Local SGD** (stochastic gradient descent; [Stich,
# 2018](https://arxiv.org/abs/1805.09767)) lets the replicas (the copies of the model)
# drift for several steps, and then averages their parameters.
# [DiLoCo](https://arxiv.org/abs/2311.08105) trains language models similarly, with 500
# steps between two averages.
#
# Write the drifting part. `local_sgd_steps(params, x, y, lr, num_steps)` takes
# `num_steps` steps of gradient descent on `mse` on every device, without communication.
# The learning rate `lr` and `num_steps` (at least 1) are Python numbers. `pmap` is the
# shorter way here; `shard_map` counts too. Your function may compile in each call; real
# code would not.
#
# ```python
# data = shard_batch({"x": points, "y": targets}, 8)
# models = local_sgd_steps(start, data["x"], data["y"], 0.1, 60)
# models["w"], models["b"]            # f32[8, 1] and f32[8], like those in start
# ```
#
# - [own descent] Replica `d` starts from row `d` of `params` and descends on the data
#   of row `d`, `num_steps` times.
# - [one row per device] Row `d` is computed on device `d` and stays there, for any
#   number of rows from 1 to the number of devices. No device is given all rows.
# - [no communication] The devices send each other nothing.


# %% exercise="local_sgd_steps" minutes=20 difficulty=2
def local_sgd_steps(params, x, y, lr, num_steps):
    """Takes `num_steps` SGD steps on each device's own data.

    Args:
        params: {"w": f32 (D, F), "b": f32 (D,)}, a replica per device.
        x: f32 (D, B, F).
        y: f32 (D, B).
        lr: learning rate, a float.
        num_steps: number of steps, 1 or more.

    Returns:
        Like params, row d on device d.
    """

    ### BEGIN SOLUTION
    # The loop is inside what is mapped, so the devices run all steps as one program and
    # never wait for Python. A Python loop around a mapped step is right, too, and starts
    # num_steps programs. `lr` and `num_steps` come from the enclosing function.
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)
    ### END SOLUTION


# %% [markdown] hints="local_sgd_steps"
# - Write the whole run for one device, then `pmap` it. `lr` and `num_steps` may come
#   from the enclosing function.
# - `jax.grad(mse)(params, x, y)` is a dict like `params`. `jax.tree.map(h, params,
#   grads)` calls `h` with each parameter and its gradient.
# - `jax.lax.fori_loop(0, num_steps, step, params)` loops inside the compiled program;
#   its `step` takes `(i, params)`. A Python loop works too.

# %% check="local_sgd_steps"

# %% [markdown] built="local_sgd_steps"
# With one line for the average, your function is Local SGD. With SGD, an average after
# every step is ordinary data parallelism.


# %%
@needs("shard_batch", "local_sgd_steps")
def _():
    data = shard_batch({"x": points, "y": targets}, num_devices)
    losses, models, slopes = jax.pmap(mse), start, []
    for call in range(13):
        slopes.append(np.asarray(models["w"])[:, 0])
        if call in (0, 12):
            own = np.asarray(losses(models, data["x"], data["y"]))
            print(f"loss after {5 * call:2} steps:", *(f"{loss:.2f}" for loss in own))
        models = local_sgd_steps(models, data["x"], data["y"], 0.1, 5)
    title = "Your replicas, without communication (true slope: 2)"
    draw_replicas(slopes, "slope w", title, x=range(0, 65, 5))


# %% [markdown]
# **Common mistake: replicas that never agree.** Each replica's loss on its own points
# fell, and that is what the log shows. But these are now eight different models, each
# fitted to its own eight points. Code that saves `params["w"][0]` keeps the model of
# device 0, throws seven away, and reports success.
#
# The cure is to average over the devices, now and then. That takes a *collective*
# (`lax.pmean`, lesson 2). Below, NumPy does it.

# %% [markdown]
# ## 7. All eight at work
#
# Your replicas train twice, 60 steps each: alone, and as Local SGD, which gives all of
# them their average after every five steps. **Predict, then run.** On *all* points, how
# do the two compare with the best line that there is?


# %%
def averaged(models):  # all replicas become their average
    means = jax.tree.map(lambda rows: np.asarray(rows).mean(axis=0), models)
    return jax.tree.map(lambda mean: np.stack([mean] * num_devices), means)


def losses_on_all(models):  # each replica's, on everybody's points
    lines = points @ np.asarray(models["w"]).T + np.asarray(models["b"])
    return np.mean((lines - targets[:, None]) ** 2, axis=0)


best = np.polyval(np.polyfit(points[:, 0], targets, 1), points[:, 0])
print(f"loss of the best line on all points: {np.mean((best - targets) ** 2):.3f}")


# %%
@needs("shard_batch", "local_sgd_steps", "make_parallel_predict")
def _():
    data = shard_batch({"x": points, "y": targets}, num_devices)
    alone = together = start
    for _ in range(12):
        alone = local_sgd_steps(alone, data["x"], data["y"], 0.1, 5)
        together = local_sgd_steps(together, data["x"], data["y"], 0.1, 5)
        together = averaged(together)
    losses = np.sort(losses_on_all(alone))
    print(f"replicas that trained alone: {losses[0]:.3f} to {losses[-1]:.3f}")
    model = {"w": together["w"][0][:, None], "b": together["b"][0][None]}
    for count in (1, num_devices):
        serve = make_parallel_predict(count)
        line, program = serve(model, points), jax.jit(serve).lower(model, points)
        flops = program.compile().cost_analysis()["flops"]
        print(f"{count} device(s) serve it, each with {flops:.0f} operations")
    loss = np.mean((np.asarray(line)[:, 0] - targets) ** 2)
    print(f"Local SGD, as served from all devices: {loss:.3f}")
    print("devices of line.sharding:", len(line.sharding.device_set))
    draw_array(line, "Predictions of the average model, from all devices")


# %% [markdown]
# After twelve averages, eight devices that see eight points each are near the line that
# fits all 64.
#
# **How do you know that all eight work?** Ask three questions.
#
# - *Are the numbers right?* The loss is that of the best line.
# - *Where are they?* `line.sharding` and the picture say: each device holds its own
#   rows.
# - *Who computed them?* `jax.jit(serve).lower(model, points).compile()` is the program
#   that each device runs. `cost_analysis()` counts its operations, a product and a sum
#   for each row: 2 x 64 on one device, 2 x 8 on each of eight. `as_text()` prints it.

# %% [markdown]
# ## Recap
#
# - The device count is fixed when JAX first touches a device: launch the process with
#   the right `XLA_FLAGS`.
# - `pmap` maps a function over the leading axis, and results stay where they were
#   computed: one row per device. The numbers do not show who did the work.
# - `in_axes=None` broadcasts. Map and compile a function once, before the loop.
# - Today's way is `jit` of `shard_map`: a mesh, specs, and blocks that keep their axis.
# - Replicas that never talk never agree, and every loss looks fine.

# %% [markdown]
# ## Three questions
#
# **1. `x` has shape `(8, 32, 10)` and `y = jax.pmap(lambda b: b.sum(axis=0))(x)`. What
# is `y.shape`?**
#
# <details><summary>(32, 10)</summary>
#
# Your function never sees the axis of devices.
#
# </details>
# <details><summary>(8, 32)</summary>
#
# That is axis 1 of the block.
#
# </details>
# <details><summary>(8, 10)</summary>
#
# Right. A device sees `b: (32, 10)`, and the results are stacked.
#
# </details>

# %% [markdown]
# **2. On 8 devices, `shard_map` gets `x: (32, 10)` with `in_specs=P("devices")`. What
# does the mapped function see?**
#
# <details><summary>(10,), one row</summary>
#
# Only `pmap` takes an axis away, and it refuses 32 rows on 8 devices.
#
# </details>
# <details><summary>(4, 10), a block of rows</summary>
#
# Right. The first axis is cut into eight parts, and each block keeps it.
#
# </details>
# <details><summary>(32, 10), everything</summary>
#
# That is what `P()` does: it broadcasts.
#
# </details>

# %% [markdown]
# **3. A colleague shows you a result whose eight rows are on eight devices, with the
# right numbers. What do you know?**
#
# <details><summary>The eight devices computed it</summary>
#
# Perhaps one of them did, and spread it afterwards.
#
# </details>
# <details><summary>Nothing about who computed it</summary>
#
# Right. Read the program, or count the operations of one device.
#
# </details>
# <details><summary>It was eight times as fast</summary>
#
# Not even on eight GPUs, if one of them did the work.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [JAX's guide to today's pmap](https://docs.jax.dev/en/latest/migrate_pmap.html):
#   what changes for existing code.
# - `solutions/references/pmap_spmd.py`: the lesson's programs as one script.
#
# **Next**: [lesson 2](02_collectives.ipynb), collectives, which let the devices talk.

# %% [markdown]
# **Your score.** The scorecard shows what the checks said last; after the second part,
# run it again. `make grade` in a terminal grades the saved notebook.

# %% scorecard=true

# %% [markdown]
# ## Going further
#
# **When does a model not know?** A trained network may be just as confident where it has
# never seen any data. Here you build two alarms, on all devices: an *ensemble*, whose
# members disagree where they guess, and the *distance* to the nearest training point.
# (First run all cells above. No later lesson needs this part.)

# %% [markdown]
# ## 8. A random key for each device
#
# JAX draws random numbers from a *key*: the same key gives the same numbers.
# `jax.random.split(key, n)` makes `n` new keys out of one. For `pmap`, a key is an
# array like any other: broadcast one, or give each device its own.
#
# **Predict, then run.** Which of the two lines shows eight different numbers?


# %%
def noisy(key, x):  # one number on each device
    return x + jax.random.normal(key)


key, zeros = jax.random.key(0), np.zeros(num_devices, np.float32)
same = jax.pmap(noisy, in_axes=(None, 0))(key, zeros)
own = jax.pmap(noisy)(jax.random.split(key, num_devices), zeros)
print("one key for all:", " ".join(f"{value:.2f}" for value in np.asarray(same)))
print("a key for each: ", " ".join(f"{value:.2f}" for value in np.asarray(own)))

# %% [markdown]
# **Common mistake: one dropout mask for all.** A broadcast key makes all devices drop
# the same units, and nothing fails.

# %% [markdown]
# ### Exercise 1.5: init_ensemble
#
# Several models that differ only in their initial weights make better predictions
# together, and where they disagree they say how unsure they are: a [deep
# ensemble](https://arxiv.org/abs/1612.01474), most simply with one member on each
# device. Eight identical members tell you nothing that one does not.
#
# Write `init_ensemble(keys, sizes)`. On each device it draws the parameters of one
# multi-layer perceptron from that device's key. It may compile in each call.
#
# ```python
# keys = jax.random.split(jax.random.key(0), 8)     # key[8]
# layers = init_ensemble(keys, (10, 32, 1))
# layers[0]                           # {"w": f32[8, 10, 32], "b": f32[8, 32]}
# layers[1]                           # {"w": f32[8, 32, 1], "b": f32[8, 1]}
# ```
#
# - [one dict per layer] It returns a list with `{"w": (D, n_in, n_out), "b": (D,
#   n_out)}` for each pair of neighbours in `sizes`, all f32.
# - [one row per device] Member `d` is drawn on device `d`, and stays there. No device is
#   given all keys, and the devices send each other nothing.
# - [independent draws] The weights of different layers and devices are independent.
# - [the key decides] Member `d` is drawn from `keys[d]`: the same key gives the same
#   parameters, a different key different ones.
# - [weight scale] Weights have mean 0 and standard deviation `1 / sqrt(n_in)`, so that
#   activations neither grow nor shrink: normal, truncated or uniform, as you like.
#   Biases are zero.


# %% exercise="init_ensemble" minutes=15 difficulty=2
def init_ensemble(keys, sizes):
    """Draws one multi-layer perceptron on each device.

    Args:
        keys: key (D,), a `jax.random.key` for each of D devices.
        sizes: widths of the layers, a tuple, for example (10, 32, 1).

    Returns:
        List of {"w": f32 (D, n_in, n_out), "b": f32 (D, n_out)}, row d on device d.
    """

    ### BEGIN SOLUTION
    # A key is used once: each device has its own, and splits it for each layer. The same
    # `init` serves one model and eight, which is what mapping is for. Flax's and Keras's
    # LeCun initialisers draw at this scale, from a truncated normal distribution.
    def init(key):
        layers = []
        for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            w = jax.random.normal(layer_key, (n_in, n_out)) / np.sqrt(n_in)
            layers.append({"w": w.astype(jnp.float32), "b": jnp.zeros(n_out)})
        return layers

    return jax.pmap(init)(keys)
    ### END SOLUTION


# %% [markdown] hints="init_ensemble"
# - Write `init(key)` for one model first, without any device axis.
# - Inside, split the key once per layer: `key, layer_key = jax.random.split(key)`.
#   `jax.random.normal(layer_key, (n_in, n_out))` draws a matrix.
# - `jax.pmap(init)` maps it over `keys` and stacks the results for you.

# %% check="init_ensemble"

# %% [markdown] built="init_ensemble"
# The scale `1 / sqrt(n_in)` is LeCun's, the default of Flax's `Dense` layer. Where all
# devices start from one key, `jax.random.fold_in(key, number)` makes a new one from a
# number, such as the device's.

# %% [markdown]
# Here are the members' forward pass and a fit, each for one device. The points of a
# curve lie between -2 and 2, with a gap from -0.8 to 0.8; every device sees all of
# them. **Predict, then run.** Where will the members disagree?


# %%
def curve(layers, x):  # x: f32[B, 1] -> f32[B]
    x = 2 * jnp.concatenate([x, jnp.ones_like(x)], axis=1)  # else all are 0 at x = 0
    for layer in layers[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return (x @ layers[-1]["w"] + layers[-1]["b"])[:, 0]


def fit(layers, x, y):
    def step(_, layers):
        grads = jax.grad(lambda net: jnp.mean((curve(net, x) - y) ** 2))(layers)
        return jax.tree.map(lambda p, g: p - 0.03 * g, layers, grads)

    return jax.lax.fori_loop(0, 2000, step, layers)


known = np.random.default_rng(1).uniform(0.8, 2, size=(8 * num_devices, 1))
known[::2] *= -1
known = np.float32(known)
heights = np.sin(2 * known[:, 0])
grid = np.linspace(-3, 3, 121, dtype=np.float32)[:, None]
train = jax.pmap(fit, in_axes=(0, None, None))


# %%
@needs("init_ensemble")
def _():
    members = init_ensemble(jax.random.split(key, num_devices), (2, 32, 32, 1))
    members = train(members, known, heights)
    curves = np.asarray(jax.pmap(curve, in_axes=(0, None))(members, grid))
    title = "Your ensemble, trained on -2 to -0.8 and 0.8 to 2"
    draw_replicas(curves.T, "prediction", title, xlabel="x", x=grid[:, 0])
    for place in (30, 60, 120):
        at, spread = grid[place, 0], curves[:, place].std()
        print(f"at x = {at:4.1f} the members' standard deviation is {spread:.2f}")


# %% [markdown]
# ### Exercise 1.6: pairwise_distances
#
# The members disagree where there was no data. The other alarm: how far is the nearest
# training point? Such a search is also behind retrieval and recommendation, and easy to
# distribute: each device measures its own part of the stored points.
#
# Write `pairwise_distances(points, queries)`. It returns the Euclidean distance of
# every point to every query.
#
# ```python
# pairwise_distances(points, queries)   # f32[8, 4, 3], f32[5, 3] -> f32[8, 4, 5]
# ```
#
# - [distances] Entry `[d, n, q]` is the distance of point `n` of row `d` to query `q`.
# - [one row per device] Row `d` is computed on device `d` and stays there, for any
#   number of rows from 1 to the number of devices. No device is ever given all points,
#   and the devices send each other nothing.
# - [accurate far from 0] Distances near 1 between points whose coordinates are in the
#   thousands are right to one part in 10,000 (take the float32 inputs as exact).


# %% exercise="pairwise_distances" minutes=10 difficulty=2
def pairwise_distances(points, queries):
    """Computes distances from each device's points to all queries.

    Args:
        points: f32 (D, N, F), one block per device.
        queries: f32 (Q, F), the same on every device.

    Returns:
        f32 (D, N, Q), row d on device d.
    """

    ### BEGIN SOLUTION
    # Written for one pair, mapped three times: no axis has to be counted. Many libraries
    # expand |p - q|^2 = |p|^2 - 2 p.q + |q|^2, a matrix product and so much faster on a
    # GPU; but far from 0 the large squares cancel, and the digits are lost.
    def distance(point, query):  # (F,), (F,) -> ()
        return jnp.sqrt(jnp.sum((point - query) ** 2))

    to_queries = jax.vmap(distance, in_axes=(None, 0))  # (F,), (Q, F) -> (Q,)
    block = jax.vmap(to_queries, in_axes=(0, None))  # (N, F), (Q, F) -> (N, Q)
    return jax.pmap(block, in_axes=(0, None))(points, queries)
    ### END SOLUTION


# %% [markdown] hints="pairwise_distances"
# - Start with one point and one query: a function `(F,), (F,) -> ()`. Subtract first,
#   then square.
# - `vmap` over the queries (`in_axes=(None, 0)`), then over the points (`(0, None)`):
#   now it takes `(N, F), (Q, F)` and returns `(N, Q)`.
# - `pmap` that with `in_axes=(0, None)`.

# %% check="pairwise_distances"

# %% [markdown] built="pairwise_distances"
# XLA fuses subtraction, square and sum into one loop, so the `N x Q x F` differences are
# never stored. Searches on GPUs expand the square, `|p|² - 2 p·q + |q|²`: one matrix
# product, and the third row fails.

# %% [markdown]
# Do both alarms ring in the same places?


# %%
@needs("init_ensemble", "shard_batch", "pairwise_distances")
def _():
    members = init_ensemble(jax.random.split(key, num_devices), (2, 32, 32, 1))
    members = train(members, known, heights)
    spread = np.asarray(jax.pmap(curve, in_axes=(0, None))(members, grid)).std(axis=0)
    distances = pairwise_distances(shard_batch(known, num_devices), grid)
    nearest = np.asarray(distances).min(axis=(0, 1))
    alarms = {"spread of the members": spread, "distance to the nearest": nearest}
    title = "Where the model does not know"
    draw_losses(alarms, "alarm", title, xlabel="x", log=False, x=grid[:, 0])


# %% [markdown]
# Both are silent among the data, and rise in the gap and beyond the ends. But at `x =
# 3`, where `sin(2x)` is -0.28, all members are too low by about 1 or more, and differ
# less than in the gap: members that extrapolate alike agree. The distance still warns.
