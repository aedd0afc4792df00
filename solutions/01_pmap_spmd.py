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
# This lesson answers on your laptop, with eight devices that JAX simulates. The same
# programs run on GPUs. At the end, eight copies of a model train on eight parts of the
# data, by a function that you have written, and you will see what becomes of them when
# they never talk to each other.
#
# **After this lesson you can**
#
# - start a process with any number of simulated devices;
# - run one function on all of them, and say which device holds what;
# - split a batch, broadcast parameters, and give each device its own randomness;
# - write the same program with `pmap` and with today's `jax.shard_map`;
# - recognise replicas (copies of a model) that drift apart.
#
# **You need** NumPy, and a first look at `jax.jit`, `jax.grad` and `jax.vmap`.
# **Time**: about 90 minutes for five exercises, with a pause; then "Going further", a
# second part of 45 minutes.

# %% [markdown]
# **Why does a course written in 2026 begin with `pmap`?** New JAX code should not use
# it. Since JAX 0.8 `pmap` is in maintenance mode, and inside it is now `jax.jit` around
# `jax.shard_map`, today's way, which you will use in exercise 1.4. We begin with `pmap`
# for two reasons. It is the simplest form of *SPMD* (single program, multiple data):
# the first axis of an array says which device gets what, and nothing else has to be
# declared. And old code is full of it, from [Flax's
# `jax_utils`](https://flax.readthedocs.io/en/v0.8.3/_modules/flax/jax_utils.html) to
# [Brax](https://github.com/google/brax); somebody has to read it and port it. Nearly
# everything carries over to `shard_map`: what is split and what is broadcast, who
# computes what, random keys, drifting replicas, and lesson 2's collectives (operations
# that exchange data). Two things change, and section 5 shows them: a mesh lists the
# devices and names their axis, and a device's block keeps its first axis.

# %% setup=true

# %% [markdown]
# These are your devices. JAX treats each as having memory of its own, as a GPU has. An
# H100 reads its own 80 GB at 3.35 TB/s. What another GPU holds must first be sent, and
# NVLink, the fastest link between them, carries 450 GB/s in each direction, about a
# seventh of that ([NVIDIA's data
# sheet](https://www.nvidia.com/en-us/data-center/h100/)). So the first question about a
# distributed program is always: which device holds what?

# %%
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

num_devices = jax.device_count()  # 8, unless you run on real devices
draw_devices()

# %% [markdown]
# Below each exercise is one line, such as `check("shard_batch")`. It answers with a
# card: which rows of the exercise's table hold, which do not, and what was seen. The
# rows in bold are **essential**: together they are worth half of the points, and if one
# of them fails, there are none. The other rows share the other half. The code after
# *again* repeats a failed call: paste it into a cell to look into it. A check judges
# your function as it was **last run**: after a change, run the exercise's cell, then
# its check.
#
# Two rules hold for every function that you write in this course. Where a check tries
# one of them, it is a row of the table:
#
# - [arguments stay] **Arguments stay.** Your function does not modify, delete or donate
#   its arguments.
# - [nothing is remembered] **Nothing is remembered.** A result depends on this call's
#   arguments only. (Compiled functions may be kept.)

# %% [markdown]
# ## 1. Eight devices out of one CPU
#
# XLA, the compiler below JAX, reads the environment variable `XLA_FLAGS` **once**: when
# JAX first touches a device. The flag `--xla_force_host_platform_device_count=8` then
# splits the CPU into eight devices. If you change the variable later, nothing happens,
# and nobody tells you. JAX's own setting, `jax_num_cpu_devices`, at least raises an
# error when it comes too late.
#
# **Predict, then run.** The cell starts two fresh Python processes. Both set the flag
# after `import jax`, but the first one has counted its devices before. What will each
# of them print?

# %%
import os
import subprocess
import sys

SET_FLAG = """
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
"""
TOO_LATE = "import os, jax; jax.device_count()" + SET_FLAG + "print(jax.device_count())"
IN_TIME = "import os, jax" + SET_FLAG + "print(jax.device_count())"


def run_child(program):
    env = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    command = [sys.executable, "-c", program]
    child = subprocess.run(command, env=env, capture_output=True, text=True)
    return child.stdout.strip()


print("set after JAX has started:", run_child(TOO_LATE), "device(s)")
print("set before its first use: ", run_child(IN_TIME), "device(s)")
try:
    jax.config.update("jax_num_cpu_devices", 4)  # JAX has started here, too
except RuntimeError as error:
    print("JAX's own setting, too late:", type(error).__name__)

# %% [markdown]
# **Common mistake: the flag that comes too late.** Nothing failed in the first process.
# It would have trained on one device, and nobody would have noticed. That is why
# programs are *launched* with the right environment, which is your first exercise.

# %% [markdown]
# ### Exercise 1.1: launch_env
#
# Code for a cluster is written and tested where there is no cluster. [JAX's `shard_map`
# notebook](https://docs.jax.dev/en/latest/201/shard-map.html) begins by
# simulating eight devices, and so do tests that run on a machine without a GPU. As you
# have just seen, a running process cannot change its mind, so whoever starts it
# prepares its environment first. The difficulty is that `XLA_FLAGS` is one string for
# all flags: a launcher that overwrites it throws away the flags of a colleague who is
# looking for a bug.
#
# Write `launch_env(num_devices, env)`. It returns a copy of the dict `env` for a new
# process, in which `XLA_FLAGS` asks for `num_devices` CPU devices. In `env`,
# `XLA_FLAGS` may be missing, and it may hold earlier counts.
#
# ```python
# count = "--xla_force_host_platform_device_count="
# env = {"HOME": "/home/ada", "XLA_FLAGS": f"--xla_dump_hlo_as_text {count}2"}
# launch_env(4, env)["XLA_FLAGS"]     # f"--xla_dump_hlo_as_text {count}4"
# ```
#
# - [device count] A fresh Python process in this environment has `num_devices` devices.
# - [other variables] All other variables are kept.
# - [other flags] All other flags in `XLA_FLAGS` are kept.
# - [no old count] An earlier device count is gone from `XLA_FLAGS`.
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
    # flags wins, so appending would do for XLA; removing the old one is for whoever reads
    # the environment. `{**env, ...}` makes the copy, so the caller's dict stays as it is.
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count="
    flags = env.get("XLA_FLAGS", "").split()
    flags = [flag for flag in flags if not flag.startswith(name)]
    flags.append(f"{name}{num_devices}")
    return {**env, "XLA_FLAGS": " ".join(flags)}
    ### END SOLUTION


# %% [markdown] hints="launch_env"
# - `XLA_FLAGS` holds flags separated by spaces: `str.split` and `" ".join` take it
#   apart and put it together. It may be missing from `env`.
# - Keep the flags that do not start with `--xla_force_host_platform_device_count=`,
#   then append your own.
# - `{**env, "XLA_FLAGS": text}` is a new dict; `env["XLA_FLAGS"] = text` changes the
#   caller's.

# %% check="launch_env"

# %% [markdown] built="launch_env"
# You have written the part of a launcher that decides what a process will see. Training
# code does the same with other flags:
# [MaxText](https://github.com/AI-Hypercomputer/maxtext) sets XLA's flags in the scripts
# that start it, among them those that let communication overlap with computing. On a
# machine with GPUs the flag changes the number of CPU devices only. Set
# `JAX_PLATFORMS=cpu` as well, and JAX uses them: a colleague's laptop can then test a
# program for 256 devices. It tests what the program does, never how fast.

# %% [markdown]
# ## 2. pmap and the leading device axis
#
# `jax.pmap(f)` runs `f` on several devices at once: one program, many devices, each
# with its own data. That is SPMD, and nearly all large models are trained this way.
#
# The **leading axis** of the data says who gets what. From `x: f32[8, 2]`, an array of
# 32-bit floats with 8 rows, device 3 receives `x[3]: f32[2]`. The function `f` never
# sees the axis; it is written for one device's row.
#
# **Predict, then run.** What shape will `y` have, and on which device is its last row?


# %%
def f(x):  # x: f32[2], one device's row
    return x**2 + jnp.sin(x)


x = np.linspace(0, 3, 2 * num_devices, dtype=np.float32).reshape(num_devices, 2)
y = jax.pmap(f)(x)
print("x:", x.shape, "  y:", y.shape, "  same as f(x):", np.allclose(y, f(x)))
draw_pmap("f", {"x": x}, {"y": y})

# %% [markdown]
# The results are stacked along the leading axis. To you `y` is one array of shape `(8,
# 2)`, but it is not in one place. Its rows, its **shards**, are still on the devices
# that computed them, and nobody collects them until you ask for the numbers, with
# `np.asarray(y)` or `print(y)`. The picture shows one colour for each device.
#
# This layout will be with you for the whole lesson, so it gets a name: **one row per
# device**. Row `d` is computed on device `d`, which is `jax.devices()[d]`, and it stays
# there.

# %%
draw_array(y, "y = pmap(f)(x)")

# %% [markdown]
# With fewer rows than devices, `pmap` uses only the first devices. More rows
# than devices are a `ValueError`.

# %%
fewer = jax.pmap(f)(x[:1])
print("1 row:", fewer.shape, "on", len(fewer.addressable_shards), "device")
try:
    jax.pmap(f)(x.repeat(2, axis=0))
except ValueError:
    print("more rows than devices: ValueError")

# %% [markdown]
# Real data has no device axis yet: a batch of 128 images with 784 pixels each is
# `f32[128, 784]`. To give each device 16 of them, cut the first axis in two:
# `f32[8, 16, 784]`.


# %%
def mean_of_images(block):  # block: f32[16, 784]
    return block.mean(axis=1)


images = np.zeros((128, 784), np.float32)
blocks = images.reshape(num_devices, 128 // num_devices, 784)
means = jax.pmap(mean_of_images)(blocks)
draw_pmap("mean", {"blocks": blocks}, {"means": means})

# %% [markdown]
# ### Exercise 1.2: shard_batch
#
# **Data parallelism** is how most training is distributed: every device has the same
# model, and each works on another part of the batch. [Llama
# 2](https://arxiv.org/abs/2307.09288) was trained with about 1,000 sequences of 4,096
# tokens in each batch. A data loader yields them as one batch, and `pmap` wants a
# device axis in front. What is more, a batch is rarely a single array. It is a
# *pytree*: arrays in dicts, lists and tuples, possibly nested, whose first axes all
# have the same length `B`. Most code bases that were built on `pmap` have this
# function; Flax calls it
# [`shard`](https://flax.readthedocs.io/en/v0.8.3/_modules/flax/training/common_utils.html).
#
# Write `shard_batch(batch, num_devices)`. It cuts each array `(B, ...)` of the batch
# into `(num_devices, B / num_devices, ...)`. The result need not be on any device yet,
# because `pmap` will place it, so `num_devices` may be any number.
#
# ```python
# batch = {"image": images, "label": labels}     # f32[128, 784] and i32[128]
# shard_batch(batch, 8)                          # f32[8, 16, 784] and i32[8, 16]
# ```
#
# - [rows in order] Device 0 gets the first `B / num_devices` rows, device 1 the next
#   ones, and so on.
# - [same structure] The same dicts, lists and tuples come back, and each array keeps
#   its dtype (of at most 32 bits). A batch may also be a single array.
# - [uneven batch] If `num_devices` does not divide `B`, it raises a `ValueError` rather
#   than lose rows.


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
# - For one array: `x.reshape(num_devices, len(x) // num_devices, *x.shape[1:])`. Test
#   whether `B` divides before you reshape.

# %% check="shard_batch"

# %% [markdown] built="shard_batch"
# This is `flax.training.common_utils.shard`, and in old training loops it is the line
# between the loader and the step. Because the blocks are consecutive, a reshape back to
# `(B, ...)` restores the batch, whatever the number of devices was. The last batch of
# an epoch seldom divides evenly: loaders drop it, or fill it up and mask what they
# added (exercise 2.1 computes a mean under such a mask). In today's code the reshape is
# gone, since `shard_map` cuts the axis where it is. You will see that in exercise 1.4.

# %% [markdown]
# ## 3. Who does the work?
#
# `jax.vmap(f)` also maps a function over a leading axis, and gives the same numbers.
# But it has no devices in mind: it turns each operation of `f` into one larger
# operation, which runs where its input is.
#
# **Predict, then run.** How many devices hold a part of `vmap`'s result?

# %%
by_vmap, by_pmap = jax.vmap(f)(x), jax.pmap(f)(x)
print("same numbers:", np.allclose(by_vmap, by_pmap))
for name, result in (("vmap", by_vmap), ("pmap", by_pmap)):
    print(f"{name}: on", len(result.addressable_shards), "device(s)")
draw_array(by_vmap, "vmap(f)(x)")

# %% [markdown]
# One device did all the work, and the numbers do not show it. In distributed computing
# agreement is not correctness: a program can give the right numbers on one device while
# seven are idle. (The two combine well, too: `pmap` over the device axis, and `vmap`
# inside it over a device's own rows.)
#
# So how can one tell who did the work? Look at the program. JAX does not run your
# Python on the devices. It runs it **once**, on stand-ins (*tracers*) that have a shape
# and a dtype but no numbers, and records every operation that they meet. The record is
# the **traced program**; JAX prints it as a *jaxpr*. XLA compiles it, and the devices
# run the result.


# %%
def g(x):
    print("Python runs g. The stand-in for x has shape", x.shape)
    return jnp.sin(x) * x


program = jax.make_jaxpr(g)(x[0])
draw_trace("g", program, num_devices)
try:
    jax.make_jaxpr(lambda x: np.sin(x) * x)(x[0])
except jax.errors.TracerArrayConversionError as error:
    print("np.sin needs numbers, and a stand-in has none:", type(error).__name__)

# %% [markdown]
# Python runs once, however many devices run the program. And NumPy could not take part:
# it computes on the spot, with numbers, and leaves nothing to write down.
#
# The checks read the traced program, too. It shows whether each device computed its own
# row, or one device computed all rows and handed them out afterwards. This asks one
# more thing of your functions, from here to the
# end of the lesson:
#
# - [traceable] **Traceable.** JAX can trace the whole call. Compute with `jnp`, not
#   `np`, on the arrays that you are given. A result that is put together by hand out of
#   arrays on single devices (`jax.make_array_from_single_device_arrays`) leaves no
#   program to read.

# %% [markdown]
# ### Exercise 1.3: parallel_square
#
# Now your first program for eight devices. The function is simple on purpose, since the
# question is where it runs. Give each of eight H100s a row of a billion floats: it
# reads 4 GB and writes 4 GB, which takes 2.4 ms at 3.35 TB/s. One H100 that squares all
# eight rows needs 19 ms, and 64 of its 80 GB.
#
# Write `parallel_square(x)`. It squares `x`, an f32 array `(D, ...)` with `D` rows, on
# `D` devices.
#
# ```python
# parallel_square(x)      # x: f32[8, 2] -> f32[8, 2], one row on each of eight devices
# ```
#
# - [squares] The result is the square of every number in `x`.
# - [one row per device] Row `d` is computed on device `d` and stays there, for any
#   number of rows from 1 to the number of devices. No device is given all rows, and the
#   devices send each other nothing.


# %% exercise="parallel_square" minutes=5 difficulty=1
def parallel_square(x):
    """Squares `x: f32 (D, ...)` on D devices, row d of the leading axis on device d."""
    ### BEGIN SOLUTION
    # `jnp.square` is written for one row, and `pmap` gives every device its own. It also
    # takes the host's array apart and places the rows, so no `device_put` is needed.
    return jax.pmap(jnp.square)(x)
    ### END SOLUTION


# %% [markdown] hints="parallel_square"
# - `jax.pmap(g)` is a function. Call it on `x`.
# - `g` receives one row, without the leading axis: it only has to square it.

# %% check="parallel_square"

# %% [markdown] built="parallel_square"
# Programs in which no device needs anything of another are called *embarrassingly
# parallel*: scoring a data set, generating images, trying out hyperparameters. On eight
# GPUs they run almost eight times as fast, because nothing is sent. Try
# `draw_array(parallel_square(x) ** 2)`. Nobody maps the second square over the devices,
# and still each of them computes its own row, since JAX computes where the data is.
# Lesson 4 builds on that.

# %% [markdown]
# ## 4. Broadcasting with in_axes
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
x = np.ones((num_devices, 4, 3), np.float32)
totals = jax.pmap(total, in_axes=(None, 0))(params, x)
print("totals:", totals.shape, "one number per device:", totals)
draw_pmap("total", {"x": x}, {"totals": totals}, {"params": params})

# %% [markdown]
# **Common mistake: no `in_axes`.** Then `pmap` looks for a device axis in the
# parameters, too. With luck that fails, with a `ValueError` that speaks of
# `partitioned` or `squeeze`. Below it does not fail. `w: f32[8, 8]` and `b: f32[8]`
# happen to have a leading axis of 8, so each device gets one row of `w` and one number
# of `b`, and computes with them.

# %%
square = {
    "w": np.eye(num_devices, dtype=np.float32),
    "b": np.zeros(num_devices, np.float32),
}
x = np.ones((num_devices, 4, num_devices), np.float32)
print("right:   ", jax.pmap(predict, in_axes=(None, 0))(square, x).shape)
print("no error:", jax.pmap(predict)(square, x).shape)

# %% [markdown]
# ## 5. Today's way: shard_map
#
# Here is the program of section 4 as one writes it today. Three things are now said
# that `pmap` took for granted:
#
# - The **mesh** says which devices take part, and gives their axis a name. Ours has one
#   axis, `"devices"`.
# - **`in_specs`** say how each argument is split. `P("devices")` splits its first axis
#   over that axis of the mesh, and `P()` broadcasts it. They are `in_axes` of 0 and
#   `None`, with a name.
# - **`out_specs`** say how the devices' results are joined into one array.
#
# One thing is different: what a device's block looks like. **Predict, then run.**
# `pmap` gave each device an `x` of shape `(4, 3)`. What shape does `shard_map` give it?


# %%
def make_mesh(num_devices):  # the first devices, along one axis
    devices = jax.devices()[:num_devices]
    auto = (AxisType.Auto,)  # JAX decides about shardings inside jit, see lesson 4
    return jax.make_mesh((num_devices,), ("devices",), axis_types=auto, devices=devices)


def total_of_block(params, x):
    print("one device's block of x has shape", x.shape)
    return total(params, x)[None]


specs = {"in_specs": (P(), P("devices")), "out_specs": P("devices")}
today = jax.shard_map(total_of_block, mesh=make_mesh(num_devices), **specs)
params = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
x = np.ones((num_devices, 4, 3), np.float32)
print("same as pmap:", np.allclose(jax.jit(today)(params, x), totals))

# %% [markdown]
# `pmap` takes the mapped axis away. `shard_map` **cuts** it, so a block keeps it, here
# with length 1. The results are joined along it, which is why `total_of_block` adds an
# axis to its number.
#
# In this example the axis costs an extra `[None]`. For real data it is what you want. A
# batch `f32[128, 784]` needs no device axis any more: `shard_map` cuts it into eight
# blocks `f32[16, 784]`, and joins the results to one array of 128 rows. The function
# sees a batch, only a smaller one.

# %% [markdown]
# ### Exercise 1.4: parallel_predict
#
# Inference on a large batch is the most common program for several devices: the same
# parameters everywhere, a part of the batch on each device, and no communication. In
# bfloat16 the 8 billion parameters of
# [Llama 3 8B](https://arxiv.org/abs/2407.21783) take 16 GB, so each of eight H100s can
# hold a full copy and has 64 GB left for its part of the work. (The 140 GB of the model
# with 70 billion do not fit. Lesson 4 splits parameters, too.)
#
# Write `parallel_predict(params, x, num_devices)` with `jax.shard_map`. It runs
# `predict` of section 4 on the mesh `make_mesh(num_devices)`. The batch `x: (B, F)` has
# no device axis, and `num_devices` divides `B`.
#
# ```python
# params = {"w": w, "b": b}            # f32[7, 5] and f32[5]
# parallel_predict(params, x, 8)       # x: f32[24, 7] -> f32[24, 5], 3 rows on each device
# ```
#
# - [predictions] The result is `predict(params, x)`, an f32 array `(B, C)`.
# - [sharded by rows] The first device computes the first block of `B / num_devices`
#   rows and keeps it, the second device the second block, and so on. No device is given
#   all rows, and the devices send each other nothing.
# - [parameters broadcast] Parameters are broadcast, not stacked: the program never puts
#   `num_devices` copies of `w` into one array.


# %% exercise="parallel_predict" minutes=15 difficulty=2
def parallel_predict(params, x, num_devices):
    """Applies `predict` to a block of rows on each device, with the same parameters.

    Args:
        params: {"w": f32 (F, C), "b": f32 (C,)}.
        x: f32 (B, F).
        num_devices: how many devices take part; it divides B.

    Returns:
        f32 (B, C), sharded by rows over the mesh's axis "devices".
    """
    ### BEGIN SOLUTION
    # `predict` needs no change: it works on a batch of any size, and a block is one. With
    # pmap it is `pmap(predict, in_axes=(None, 0))(params, shard_batch(x, num_devices))`.
    # `jit` makes one program of it; without, JAX runs the operations one at a time.
    mesh, rows = make_mesh(num_devices), P("devices")
    specs = {"in_specs": (P(), rows), "out_specs": rows}
    mapped = jax.shard_map(predict, mesh=mesh, **specs)
    return jax.jit(mapped)(params, x)
    ### END SOLUTION


# %% [markdown] hints="parallel_predict"
# - `jax.shard_map(predict, mesh=..., in_specs=..., out_specs=...)` returns a function
#   of `params` and `x`. Put it into `jax.jit`, and call the result.
# - `in_specs` is a tuple with one spec for each argument of `predict`. One spec covers
#   the whole tree of parameters.
# - Parameters: `P()`. Batch and predictions: `P("devices")`.

# %% check="parallel_predict"

# %% [markdown] built="parallel_predict"
# `P()` for the parameters and an axis of the mesh for the batch: this pair *is* data
# parallelism, and you will find it in MaxText and in every data-parallel JAX program.
# Lesson 3 replaces `predict` by the gradient of a loss and adds one collective, and
# then it trains. Try `out_specs=P()`: JAX refuses, because it cannot know that all
# devices have computed the same. `pmap` with `out_axes=None` never asks, and returns
# what device 0 has. A server would not call `jax.shard_map` and `jax.jit` for every
# request, as our function does; the next section says why.

# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above again: what follows needs their names.
#
# ## 6. Compile once
#
# `pmap` includes `jit`: it traces your function **once** for all devices, and keeps the
# compiled program for the next call.
#
# **Predict, then run.** How often is `count_traces` traced in the first three calls?
# And how often for each of the two functions in the last loop?

# %%
traced = 0


def count_traces(x):
    global traced
    traced += 1  # Python runs this while tracing, the devices never do
    return 2 * x


parallel = jax.pmap(count_traces)
for shape in [(num_devices, 2), (num_devices, 2), (num_devices, 3)]:
    parallel(np.ones(shape, np.float32))
    print(shape, "traced so far:", traced)


def new_function(x):  # a lambda of its own in each call
    return jax.pmap(lambda x: count_traces(x))(x)


for name, function in (("made once", parallel), ("made anew", new_function)):
    traced = 0
    for _ in range(3):
        function(np.ones((num_devices, 4), np.float32))
    print(f"{name}: traced {traced} time(s) in 3 calls")

# %% [markdown]
# A new shape or dtype needs a new program. So does a new *function*, because JAX looks
# a compiled program up by the function object. All of this holds for `jax.jit` and
# `jax.shard_map`, too: call them once, and keep what they return.
#
# **Common mistake: compiling in each call.** A lambda, or a function defined inside
# another, is a new object each time, so its `pmap` compiles again. The numbers are
# right, but the program is often more than a hundred times as slow. In a training loop,
# call `jax.pmap` once, before the loop. (The exercises of this lesson may compile in
# each call.)

# %% [markdown]
# ## 7. A random key for each device
#
# Dropout, data augmentation and initial weights need random numbers. JAX draws them
# from a *key*: the same key gives the same numbers. `jax.random.split(key, n)` makes
# `n` new keys out of one. To `pmap` a key is an array like any other, so the choice is
# yours: broadcast one key, or split it and give each device its own.
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
# the same units. Nothing fails; there is just one mask where there should be eight.

# %% [markdown]
# ## 8. Training without talking
#
# You can now split data, share parameters and give out keys. That is enough to train,
# or so it seems. The data: `y = 2x - 1` plus noise, 8 points on each device. Every
# device starts with the same model, the line that fits all 64 points together best, and
# takes steps of gradient descent on **its own** points.


# %%
def mse(params, x, y):  # x: (B, F), y: (B,) -> ()
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


def local_step(params, x, y):
    grads = jax.grad(mse)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


rng = np.random.default_rng(0)
train_x = np.float32(rng.normal(size=(num_devices, 8, 1)))
noise = 0.5 * rng.normal(size=(num_devices, 8))
train_y = np.float32(2 * train_x[..., 0] - 1 + noise)
slope, constant = np.polyfit(train_x.ravel(), train_y.ravel(), 1)
start = {
    "w": np.full((num_devices, 1), slope, np.float32),
    "b": np.full(num_devices, constant, np.float32),
}

# %% [markdown]
# **Predict, then run.** Will every device's loss fall? Will the eight models agree at
# the end?

# %%
step, losses = jax.pmap(local_step), jax.pmap(mse)
params, slopes = start, []
for _ in range(60):
    slopes.append(np.asarray(params["w"])[:, 0])  # waits for the previous step
    params = step(params, train_x, train_y)
for when, state in (("before", start), ("after", params)):
    values = np.asarray(losses(state, train_x, train_y))
    print("loss", when, " ".join(f"{value:.2f}" for value in values))
draw_replicas(slopes, "slope w", "Replicas without communication (true slope: 2)")

# %% [markdown]
# **Common mistake: replicas that drift apart.** Every loss fell, so the log looks
# healthy. But these are now eight different models, each fitted to its own eight
# points. Code that saves `params["w"][0]` at the end keeps the model of device 0,
# throws seven away, and reports success.
#
# The cure is to average the gradients over the devices in every step. That takes a
# *collective*, the subject of lesson 2. But first, let us put the drift to use.

# %% [markdown]
# ### Exercise 1.5: local_sgd_steps
#
# Averaging in every step has a price. In float32 the gradient of a model with 7 billion
# parameters takes 28 GB. To average it over eight devices, each has to send 2 x 7/8 of
# that (lesson 2 shows why), 49 GB: 0.11 seconds over NVLink, but a second over a
# network card of 400 Gbit/s, in *every* step. **Local SGD** ([Stich,
# 2018](https://arxiv.org/abs/1805.09767)) deliberately lets the replicas drift for
# several steps, and then averages their parameters once.
# [DiLoCo](https://arxiv.org/abs/2311.08105) trains language models in much this way
# between poorly connected sites, with 500 steps between two averages.
#
# Write the drifting part. `local_sgd_steps(params, x, y, lr, num_steps)` takes
# `num_steps` steps of gradient descent on `mse` with learning rate `lr` on every
# device, all without communication. `lr` and `num_steps` are Python numbers, and
# `num_steps` is at least 1.
#
# ```python
# models = local_sgd_steps(start, train_x, train_y, 0.1, 60)  # those of the picture above
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
# - One step is `local_step` above, with `lr` in place of 0.1.
# - `jax.lax.fori_loop(0, num_steps, step, params)` loops inside the compiled program;
#   its `step` takes `(i, params)`. A Python loop works too, inside or outside the
#   function that you `pmap`.

# %% check="local_sgd_steps"

# %% [markdown] built="local_sgd_steps"
# With one line for the average, your function is Local SGD: drift, average, drift
# again. The shorter the rounds, the closer it comes to ordinary data parallelism, which
# averages after every step, as PyTorch's `DistributedDataParallel` does with gradients.
# For the picture below the check, every fourth call of five steps was followed by an
# average. NumPy took it, in the memory of the CPU (the *host*). On a cluster nobody
# would send all replicas to one place: lesson 2 takes the mean on the devices, with
# `lax.pmean`, and lesson 3 builds the training step on it.

# %% [markdown]
# ## Recap
#
# - The device count is fixed when JAX first touches a device, so launch the process
#   with the right `XLA_FLAGS`.
# - `pmap` maps a function over the leading device axis, and results stay where they
#   were computed: one row per device. The numbers do not show who did the work.
# - `in_axes=None` broadcasts. Split keys yourself, or all devices draw the same.
# - Today's way is `jit` of `shard_map`: a mesh, specs, and blocks that keep their axis.
# - Map and compile a function once, before the loop.
# - Replicas that never talk drift apart, and every loss looks fine.

# %% [markdown]
# ## Three questions
#
# **1. `x` has shape `(8, 32, 10)` and `y = jax.pmap(lambda b: b.sum(axis=0))(x)`. What
# is `y.shape`?**
#
# <details><summary>(32, 10)</summary>
#
# This would sum over the devices, an axis that your function never sees.
#
# </details>
# <details><summary>(8, 32)</summary>
#
# This would sum the features: axis 1 of the block.
#
# </details>
# <details><summary>(8, 10)</summary>
#
# Right. A device sees `b: (32, 10)`; its axis 0 is the batch. The results are stacked.
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
# **3. Dropout runs inside `pmap` with `in_axes=None` for the key. What goes wrong?**
#
# <details><summary>Nothing: pmap makes keys differ</summary>
#
# A key is an array like any other.
#
# </details>
# <details><summary>All devices drop the same positions</summary>
#
# Right. They share a key, so they draw the same mask. Split the key first.
#
# </details>
# <details><summary>An error: keys cannot be broadcast</summary>
#
# They can; nobody notices.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [JAX's guide to today's pmap](https://docs.jax.dev/en/latest/migrate_pmap.html):
#   what changes for existing code.
# - Older training code is built as in this lesson: shard the batch, replicate the
#   parameters, `pmap` the step. Search a code base that you know for `pmap(`, and say
#   for each argument whether it is split or broadcast.
# - `solutions/references/pmap_spmd.py` in this repository: the lesson's programs as one
#   script.
#
# **Next**: [lesson 2](02_collectives.ipynb), collectives, which let the devices talk.

# %% [markdown]
# ## Going further
#
# The core of the lesson ends here. Two more exercises follow, for another sitting (then
# run all cells above first). Their points count like any other's; no later lesson needs
# them.

# %% [markdown]
# If you port old code, here is what its words mean today ("gone": not in today's JAX):
#
# | then | now |
# |---|---|
# | `jax.pmap` | `jax.jit(jax.shard_map(...))` |
# | `in_axes`, `out_axes` | `in_specs`, `out_specs` |
# | `soft_pmap`, `xmap` (gone) | `shard_map`, or `vmap` inside it |
# | `device_put_sharded`, `device_put_replicated` (gone) | `jax.device_put` with a sharding (lesson 4) |
# | `PmapSharding`, `ShardedDeviceArray` (gone) | `jax.Array` with a `NamedSharding` |
# | `jax.tree_map` (gone) | `jax.tree.map` |
#
# Two surprises are waiting in such code since JAX 0.8. A slice such as `y[:3]` of
# `pmap`'s result is replicated on *all* devices, and `pmap` refuses to take it back;
# use `np.asarray(y)[:3]`. And where an array is placed is part of what a program is
# compiled for: a loop whose second step receives `pmap`'s own results compiles twice.

# %% [markdown]
# ### Exercise 1.6: pairwise_distances
#
# Nearest-neighbour search is behind retrieval and recommendation, and it is easy to
# distribute: split the stored points, broadcast the few queries, and let each device
# measure its own part. A million points with 768 features take 3.1 GB in float32, so
# each of eight devices holds 0.4 GB; a thousand queries, 3 MB, go to all. Nobody needs
# all points in one place, and each device does an eighth of the work.
#
# Write `pairwise_distances(points, queries)`. It returns the Euclidean distance of
# every point to every query.
#
# ```python
# pairwise_distances(points, queries)   # f32[8, 4, 3], f32[5, 3] -> f32[8, 4, 5]
# ```
#
# - [distances] Entry `[d, n, q]` is the distance of point `n` of row `d` to query `q`.
# - [one row per device] Row `d` is computed on device `d` and stays there. No device is
#   ever given all points, and the devices send each other nothing.
# - [accurate far from 0] Distances near 1 between points whose coordinates are in the
#   thousands are right to one part in 10,000.


# %% exercise="pairwise_distances" minutes=15 difficulty=2
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
# What about memory? On paper a device holds `N x Q x F` differences, 768 times as many
# numbers as distances. But the subtraction, the square and the sum are in one compiled
# program, and XLA fuses them into one loop that stores the sums only. Compare with
# [scikit-learn's
# `euclidean_distances`](https://scikit-learn.org/stable/modules/generated/sklearn.metrics.pairwise.euclidean_distances.html),
# which expands the square to get a matrix product, and warns of "catastrophic
# cancellation" in its documentation. A search engine would go on to take each device's
# best few (`jax.lax.top_k`), and send only those.

# %% [markdown]
# ### Exercise 1.7: init_ensemble
#
# Several models that differ only in their initial weights make better predictions
# together, and where they disagree they say how unsure they are: [deep
# ensembles](https://arxiv.org/abs/1612.01474). A model for each device is the simplest
# way to train one, and the first thing to get wrong is randomness: eight equal members
# cost eight times as much as the one model that they are.
#
# Write `init_ensemble(key, num_devices, sizes)`. It draws the parameters of one
# multi-layer perceptron for each device, stacked on a leading device axis. The arrays
# may be on any device or on the host, and either JAX or NumPy may draw the numbers.
#
# ```python
# layers = init_ensemble(jax.random.key(0), 8, (10, 32, 1))
# layers[0]                           # {"w": f32[8, 10, 32], "b": f32[8, 32]}
# layers[1]                           # {"w": f32[8, 32, 1], "b": f32[8, 1]}
# ```
#
# - [one dict per layer] It returns a list with `{"w": (D, n_in, n_out), "b": (D,
#   n_out)}` for each pair of neighbours in `sizes`, all f32.
# - [independent draws] The weights of different layers and devices are independent.
# - [the key decides] The same `key` gives the same parameters, another `key` others.
# - [weight scale] Weights have mean 0 and standard deviation `1 / sqrt(n_in)`, so that
#   activations neither grow nor shrink; normal, truncated or uniform, as you like.
# - [zero biases] Biases are zero.


# %% exercise="init_ensemble" minutes=20 difficulty=2
def init_ensemble(key, num_devices, sizes):
    """Draws one multi-layer perceptron per device.

    Args:
        key: a `jax.random.key`.
        num_devices: number of members D, 1 to the number of devices.
        sizes: widths of the layers, a tuple, for example (10, 32, 1).

    Returns:
        List of {"w": f32 (D, n_in, n_out), "b": f32 (D, n_out)}.
    """

    ### BEGIN SOLUTION
    # A key is used once: `split` gives each device its own, and inside it each layer. The
    # same `init` serves one model and eight, which is what mapping is for. Flax's and
    # Keras's LeCun initialisers draw at this scale, from a truncated normal distribution.
    def init(key):
        layers = []
        for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
            key, layer_key = jax.random.split(key)
            w = jax.random.normal(layer_key, (n_in, n_out)) / np.sqrt(n_in)
            layers.append({"w": w.astype(jnp.float32), "b": jnp.zeros(n_out)})
        return layers

    return jax.pmap(init)(jax.random.split(key, num_devices))
    ### END SOLUTION


# %% [markdown] hints="init_ensemble"
# - Write `init(key)` for one model first, without any device axis.
# - Inside, split the key once per layer: `key, layer_key = jax.random.split(key)`.
# - `jax.pmap(init)` maps it over `jax.random.split(key, num_devices)` and stacks the
#   results for you. (It compiles in each call; an ensemble is made once.)

# %% check="init_ensemble"

# %% [markdown] built="init_ensemble"
# Lesson 2 averages the predictions of such an ensemble over the devices. The scale `1 /
# sqrt(n_in)` is LeCun's, the default of Flax's `Dense` layer. Splitting a key per
# device is also what dropout needs, and it goes wrong in the same way: with a broadcast
# key every member would be the same, and every loss would still fall. If you start from
# one key on each device, `jax.random.fold_in(key, number)` makes a new one from a
# number, such as the number of the device.

# %% [markdown]
# **Arguments that are not data.** A number that decides a *shape*, or a function, must
# be known while JAX traces. `static_broadcasted_argnums` names such arguments: all
# devices get them, and each new value compiles another program.

# %%
repeat = jax.pmap(jnp.tile, static_broadcasted_argnums=1)
x = np.ones((num_devices, 2), np.float32)
print("each row twice:", repeat(x, 2).shape, "  3 times:", repeat(x, 3).shape)
try:
    jax.pmap(jnp.tile, in_axes=(0, None))(x, 2)
except TypeError:
    print("broadcast as data: TypeError, its value is unknown")

# %% [markdown]
# **Your score.** The scorecard shows what the checks above said last. Save the
# notebook, then run `make grade` in a terminal, in the course's folder: it grades the
# saved file as a class's work is graded, and shows the same cards.

# %% scorecard=true
