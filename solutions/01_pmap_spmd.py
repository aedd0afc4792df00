# %% [markdown]
# # Lesson 1. pmap: one program, many devices
#
# COLAB_BADGE
#
# A cluster trains one model on many devices at once. You learn how on your laptop, with
# eight devices that JAX simulates. The same programs run on GPUs.
#
# **After this lesson you can**
#
# - start a process with any number of simulated devices;
# - run one function on all of them, and say what lies where;
# - split a batch, broadcast parameters, and give each device its own randomness;
# - recognise replicas (a model's copies) that drift apart (in "Going further").
#
# **You need** NumPy, and a first look at `jax.jit`, `jax.grad` and `jax.vmap`.
# **Time**: about 85 minutes for four exercises, with a pause; then "Going further", a
# second part of 65.

# %% setup=true

# %% [markdown]
# These are your devices. Each has memory of its own: an array that lies on device 0
# cannot be read by device 1 unless somebody sends it.
#
# Below each exercise stands one line, such as `check("shard_batch")`. It answers with a
# card: which statements of the exercise hold, which do not, and what was seen. The
# statements in bold are **essential**: all of them must hold for any points, and they are
# worth half of these. The others share the rest. A line that begins with *again* repeats
# a failed call, for you to look into.
#
# A check judges its exercise as it was **last run**: after a change, run the exercise's
# cell, then its check. Two things hold for every exercise:
#
# - [arguments stay] Arguments stay unchanged, and usable after the call: do not donate
#   their memory (`donate_argnums`).
# - [nothing is remembered] A result depends on this call's arguments alone. (Compiled
#   functions may be kept.)

# %%
num_devices = jax.device_count()  # 8, unless you run on real devices
draw_devices()

# %% [markdown]
# ## 1. Eight devices out of one CPU
#
# XLA, the compiler below JAX, reads the environment variable `XLA_FLAGS` **once**: when
# JAX first touches a device. The flag `--xla_force_host_platform_device_count=8` then
# splits the CPU into eight devices. Later changes of the variable are ignored without a
# word. JAX's own setting, `jax_num_cpu_devices`, raises when it comes too late.
#
# **Predict, then run.** The cell starts two fresh Python processes. Both set the flag
# after `import jax`; the first one has already counted its devices by then. What will
# each print?

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
# It would train on one device, and you would never be told. So programs are *launched*
# with the right environment, the first exercise.

# %% [markdown]
# ### Exercise 1.1: launch_env
#
# `launch_env(num_devices, env)` returns a **copy** of the dict `env`, for a new process.
#
# - [a fresh process sees them] With it, a fresh Python process sees `num_devices` CPU
#   devices.
# - [other variables stay] Other variables stay.
# - [other flags stay] Other flags in `XLA_FLAGS` stay, in their order.
# - [the old count is gone] Old device counts are gone, even two of them.
# - [below one device] `num_devices` below 1: `ValueError`, and its text names that
#   number.


# %% exercise="launch_env" minutes=9 difficulty=1
def launch_env(num_devices, env):
    """Returns a copy of `env` that gives a fresh process `num_devices` CPU devices.

    Args:
        num_devices: how many, at least 1.
        env: dict of str to str; it may hold XLA_FLAGS, with blanks between the flags,
            an earlier count among them. No other variable of it sets a count.

    Raises:
        ValueError: num_devices is below 1; the text names it.
    """
    ### BEGIN SOLUTION
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
# - Keep the flags that do not start with `--xla_force_host_platform_device_count=`, then
#   append your own.
# - `{**env, "XLA_FLAGS": text}` is a new dict; `env["XLA_FLAGS"] = text` changes the
#   caller's.

# %% check="launch_env"

# %% [markdown]
# ## 2. pmap and the leading device axis
#
# `jax.pmap(f)` runs `f` on several devices at once: one program, many devices, each
# with its own data (SPMD). It is the older interface; section 7 shows today's.
#
# The data's **leading axis** says who gets what. From `x: f32[8, 2]`, an array of
# 32-bit floats with 8 rows, device 3 receives `x[3]: f32[2]`. `f` never sees the axis.
#
# **Predict, then run.** What shape does `y` have? Where does its last row lie?


# %%
def f(x):  # x: f32[2], one device's row
    return x**2 + jnp.sin(x)


x = np.linspace(0, 3, 2 * num_devices, dtype=np.float32).reshape(num_devices, 2)
y = jax.pmap(f)(x)
print("x:", x.shape, "  y:", y.shape, "  same as f(x):", np.allclose(y, f(x)))
draw_pmap("f", {"x": x}, {"y": y})

# %% [markdown]
# The results are stacked along the leading axis. `y` is one array; its rows, its
# **shards**, still lie where they were computed. (`y * 2` keeps them there. `y[:3]` does
# not: since JAX 0.8 all three rows then lie on every one of the eight devices, and `pmap`
# refuses them. It takes `np.asarray(y)[:3]`.)

# %%
draw_array(y, "y = pmap(f)(x)")

# %% [markdown]
# A shorter leading axis uses fewer devices: on a CPU the first ones. A longer one is a
# `ValueError`.

# %%
fewer = jax.pmap(f)(x[:1])
print("1 row:", fewer.shape, "on", len(fewer.addressable_shards), "device")
try:
    jax.pmap(f)(x.repeat(2, axis=0))
except ValueError:
    print("more rows than devices: ValueError")

# %% [markdown]
# A batch has no device axis yet: 128 images of 784 pixels are `f32[128, 784]`. So cut
# its first axis into two: `f32[8, 16, 784]`, 16 images on each device.


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
# Batches are *pytrees*: arrays in nested dicts, lists and tuples, or one bare array.
# `shard_batch(batch, num_devices)` cuts each array `(B, ...)` of a pytree, all with the
# same `B`, into `(num_devices, B / num_devices, ...)`. Where the blocks lie does not
# matter, so `num_devices` may be any number from 1 on.
#
# - [the same tree] The tree keeps its containers: named tuples, ordered dicts and default
#   dicts, too.
# - [order stays] Order stays: device 0 gets the first `B / num_devices` rows.
# - [dtypes stay] Dtypes stay; none has more than 32 bits.
# - [uneven rows raise] Where `num_devices` does not divide `B`: `ValueError`, and its
#   text names `B` and `num_devices`.


# %% exercise="shard_batch" minutes=8 difficulty=1
def shard_batch(batch, num_devices):
    """Splits the leading axis of every array in `batch` over the devices.

    Args:
        batch: pytree of arrays (B, ...), none of them empty.
        num_devices: number of blocks, 1 or more.

    Returns:
        The same tree with arrays (num_devices, B / num_devices, ...).

    Raises:
        ValueError: B does not divide by num_devices; the text names both.
    """

    ### BEGIN SOLUTION
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

# %% [markdown]
# From here on, results lie on devices. JAX *traces* a function: it runs it once, with
# stand-ins for arrays, and writes down the operations, a program. *One row per device*
# means, for any number `D` of rows from 1 to 8:
#
# - [row d on device d] Row `d` of the result is computed on device `d`,
#   `jax.devices()[d]`, and stays there.
# - [it traces] The check reads the traced program: on the arrays that your function is
#   given, use `jnp`, not `np`.
#
# The arrays you are given come from NumPy or `jnp.asarray`, or are placed already: row
# `d` on device `d`, a shared argument on every device. Your functions may compile in each
# call; section 5 tells what that costs.

# %% [markdown]
# ### Exercise 1.3: parallel_square
#
# - [each number squared] `parallel_square(x)` takes `x: (D, ...)` and returns its square,
#   one row per device.
# - [shape and dtype stay] Shape and dtype stay those of `x`: ints or floats of 32 bits
#   at most.


# %% exercise="parallel_square" minutes=4 difficulty=1
def parallel_square(x):
    """Squares `x: (D, ...)` on D devices, row d of the leading axis on device d."""
    ### BEGIN SOLUTION
    return jax.pmap(jnp.square)(x)
    ### END SOLUTION


# %% [markdown] hints="parallel_square"
# - `jax.pmap(g)` is a function. Call it on `x`.
# - `g` receives one row, without the leading axis: it only has to square it.

# %% check="parallel_square"

# %% [markdown]
# ## 3. pmap beside vmap
#
# `jax.vmap(f)` also maps a function over a leading axis, and gives the same numbers.
# But it places nothing: each operation of `f` becomes one larger operation, which runs
# where its input lies, here on **one** device. `pmap` starts `f` on **many**.
#
# They combine: `pmap` over the device axis, `vmap` inside over a device's own rows.

# %%
x = np.linspace(0, 3, 2 * num_devices, dtype=np.float32).reshape(num_devices, 2)
by_vmap, by_pmap = jax.vmap(f)(x), jax.pmap(f)(x)
print("same numbers:", np.allclose(by_vmap, by_pmap))
draw_array(by_vmap, "vmap(f)(x)")

# %% [markdown]
# ## 4. Broadcasting with in_axes
#
# Devices share the model and differ in their data. `in_axes` says so per argument: `0`
# splits the leading axis, `None` sends the whole argument to every device (it is
# *broadcast*). One `None` covers a whole tree of parameters. Below, `f32[]` is one
# number.


# %%
def predict(params, x):  # x: f32[B, F] -> f32[B, C]
    return x @ params["w"] + params["b"]


def total(params, x):
    return predict(params, x).sum()


params = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
x = np.ones((num_devices, 4, 3), np.float32)
totals = jax.pmap(total, in_axes=(None, 0))(params, x)
print("one number per device:", totals)
draw_pmap("total", {"x": x}, {"totals": totals}, {"params": params})

# %% [markdown]
# **Common mistake: no `in_axes`.** Then `pmap` looks for a device axis in the
# parameters too. You are lucky if that fails, today with a `ValueError` that speaks of
# `partitioned` or `squeeze`. Below, `w: f32[8, 8]` and `b: f32[8]` have one by accident:
# each device gets one row of `w` and one number of `b`.

# %%
square = {
    "w": np.eye(num_devices, dtype=np.float32),
    "b": np.zeros(num_devices, np.float32),
}
x = np.ones((num_devices, 4, num_devices), np.float32)
print("right:   ", jax.pmap(predict, in_axes=(None, 0))(square, x).shape)
print("no error:", jax.pmap(predict)(square, x).shape)

# %% [markdown]
# ### Exercise 1.4: parallel_predict
#
# `parallel_predict(params, x)` runs `predict` above on `D` devices. The parameters
# `{"w": (F, C), "b": (C,)}` are broadcast, the batch `x: (D, B, F)` is mapped.
#
# - [a prediction of each block] The result is `(D, B, C)`, one row per device: block `d`
#   of `x`, predicted with the same parameters.
# - [no stacked parameters] Do not stack copies of the parameters: with `D` above 1, no
#   array of the traced program may hold `w` `D` times or more.


# %% exercise="parallel_predict" minutes=6 difficulty=1
def parallel_predict(params, x):
    """Applies `predict` to one block of `x` per device, with the same parameters.

    Args:
        params: {"w": f32 (F, C), "b": f32 (C,)}, without a device axis.
        x: f32 (D, B, F).

    Returns:
        f32 (D, B, C), row d on device d.
    """
    ### BEGIN SOLUTION
    return jax.pmap(predict, in_axes=(None, 0))(params, x)
    ### END SOLUTION


# %% [markdown] hints="parallel_predict"
# - Without `in_axes`, `pmap` would look for a device axis in the parameters as well.
# - `in_axes` is a tuple with one entry per argument of `predict`.

# %% check="parallel_predict"

# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above again: what follows needs their names.
#
# ## 5. pmap compiles for you
#
# `pmap` includes `jit`: it traces your function **once** for all eight devices, which run
# the one compiled program.
#
# **Predict, then run.** How often is `count_traces` traced in the three calls, then in
# the two loops?

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
# A new shape or dtype means a new program. So does a new *function*: JAX finds a compiled
# program by the function object. Since JAX 0.8 a new placement counts, too: a loop whose
# second step receives `pmap`'s own results compiles twice.
#
# **Common mistake: compiling at each call.** A lambda, or a function defined inside
# another, is new each time, so its `pmap` compiles again: right numbers, often more
# than a hundred times as slow. Give `pmap` one function, made outside of the loop.

# %% [markdown]
# ## 6. Randomness of its own for each device
#
# JAX draws random numbers from a *key*: the same key, the same numbers.
# `jax.random.split(key, n)` makes `n` new keys out of one. A key is data like any other:
# broadcast one key, and all devices draw the same; split it, and each gets its own.


# %%
def noisy(key, x):  # one number on each device
    return x + jax.random.normal(key)


key, zeros = jax.random.key(0), np.zeros(num_devices, np.float32)
same = jax.pmap(noisy, in_axes=(None, 0))(key, zeros)
own = jax.pmap(noisy)(jax.random.split(key, num_devices), zeros)
print("one key for all:", " ".join(f"{value:.2f}" for value in np.asarray(same)))
print("a key for each: ", " ".join(f"{value:.2f}" for value in np.asarray(own)))

# %% [markdown]
# ## 7. Then and now
#
# Since JAX 0.8 `pmap` receives no new features, and underneath it is `jax.jit` around
# `jax.shard_map`, which you can write yourself. Here is section 4's program again. A
# **mesh** names the axes along which devices lie. Specs take the place of `in_axes`:
# `P("devices")` splits the leading axis, `P()` hands the whole argument to every
# device. Call `jax.shard_map` once, outside of the loop: it returns a new function each
# time.
#
# **Predict, then run.** Which shape has a device's block of `x: f32[8, 4, 3]`?

# %%
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

# Auto: JAX decides about layouts inside jit. Lesson 4 shows the other kind.
mesh = jax.make_mesh((num_devices,), ("devices",), axis_types=(AxisType.Auto,))


def total_of_block(params, x):
    print("a block of x has shape", x.shape)  # Python runs this while tracing
    return total(params, x)[None]


specs = {"in_specs": (P(), P("devices")), "out_specs": P("devices")}
today = jax.jit(jax.shard_map(total_of_block, mesh=mesh, **specs))  # made once
params = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
x = np.ones((num_devices, 4, 3), np.float32)
print("same as pmap:", np.allclose(today(params, x), totals))

# %% [markdown]
# In `pmap` a device's block **loses** the mapped axis; in `shard_map` it **keeps** it,
# with this device's rows. Results are joined along it, so `total_of_block` adds an axis
# to its scalar.

# %% [markdown]
# ## Recap
#
# - The device count is fixed when JAX first touches a device; launch with the right
#   `XLA_FLAGS`.
# - `pmap` maps a function over the leading device axis; results stay where they arise.
#   A new function compiles again: make it once. Today's way is `jit` of `shard_map`.
# - `in_axes=None` broadcasts. Split keys yourself, or all devices draw the same.

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
# **2. You have 8 devices and call `jax.pmap(f)(x)` with `x: (2, 5)`. What happens?**
#
# <details><summary>Two devices work, six are idle</summary>
#
# Right. The leading axis decides how many devices take part.
#
# </details>
# <details><summary>An error: 2 is not 8</summary>
#
# It may be smaller. Errors are more than 8 rows, or mapped arguments whose leading sizes
# differ.
#
# </details>
# <details><summary>Each row is shared by four devices</summary>
#
# `pmap` never splits a row; one row goes to one device.
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
#   parameters, `pmap` the step.
# - `solutions/references/pmap_spmd.py` in this repository: the lesson's programs as one
#   script.
#
# **Next**: [lesson 2](02_collectives.ipynb), collectives, which let the devices talk.

# %% [markdown]
# ## Going further
#
# The core of the lesson ends here. Three exercises follow, and replicas that drift, for
# another sitting (then run all cells above first). Their points count like any other's;
# no later lesson needs them.

# %% [markdown]
# The web is full of "then" ("gone": not in today's JAX):
#
# | then | now |
# |---|---|
# | `jax.pmap` | `jax.jit(jax.shard_map(...))` |
# | `in_axes`, `out_axes` | `in_specs`, `out_specs` |
# | `soft_pmap`, `xmap` (gone) | `shard_map`, or `vmap` inside it |
# | `device_put_sharded`, `device_put_replicated` (gone) | `jax.device_put` with a sharding (lesson 4) |
# | `PmapSharding`, `ShardedDeviceArray` (gone) | `jax.Array` with a `NamedSharding` |
# | `jax.tree_map` (gone) | `jax.tree.map` |

# %% [markdown]
# ### Exercise 1.5: pairwise_distances
#
# `points: (D, N, F)` are split, `queries: (Q, F)` go to every device.
#
# - [each distance] Return the Euclidean distance of each point to each query,
#   `(D, N, Q)`, one row per device: by `pmap` over `vmap`, say.
# - [never all differences] Memory is what large models run out of, so no array of the
#   traced program may hold all `D * N * Q * F` differences, in this shape or another. One
#   device's block `(N, Q, F)` always is fine, also with `D = 1`.
# - [four digits] Each distance is right to one part in 10,000, also where coordinates are
#   in the thousands and distances near 1: subtract before you square.


# %% exercise="pairwise_distances" minutes=12 difficulty=2
def pairwise_distances(points, queries):
    """Computes distances from each device's points to all queries.

    Args:
        points: f32 (D, N, F), one block per device.
        queries: f32 (Q, F), the same on every device.

    Returns:
        f32 (D, N, Q), row d on device d.
    """

    ### BEGIN SOLUTION
    def distance(point, query):  # (F,), (F,) -> ()
        return jnp.sqrt(jnp.sum((point - query) ** 2))

    to_queries = jax.vmap(distance, in_axes=(None, 0))  # (F,), (Q, F) -> (Q,)
    block = jax.vmap(to_queries, in_axes=(0, None))  # (N, F), (Q, F) -> (N, Q)
    return jax.pmap(block, in_axes=(0, None))(points, queries)
    ### END SOLUTION


# %% [markdown] hints="pairwise_distances"
# - Start with one point and one query: a function `(F,), (F,) -> ()`.
# - `vmap` over the queries (`in_axes=(None, 0)`), then over the points (`(0, None)`):
#   now it takes `(N, F), (Q, F)` and returns `(N, Q)`.
# - `pmap` that with `in_axes=(0, None)`.

# %% check="pairwise_distances"

# %% [markdown]
# ### Exercise 1.6: init_ensemble
#
# The members of an ensemble, a model per device, must start apart. `init_ensemble(key,
# num_devices, sizes)` makes the parameters of a multi-layer perceptron for every
# device, stacked on a leading device axis.
#
# - [a list of layers] It returns a list with `{"w": (D, n_in, n_out), "b": (D, n_out)}`
#   for each pair of neighbours in `sizes`, all f32.
# - [normal weights] Weights are normal, not truncated (as `lecun_normal`'s are), with
#   mean zero and standard deviation `1 / sqrt(n_in)`.
# - [zero biases] Biases are zero.
# - [a key for each] All weights are independent draws, over all layers and devices.
# - [the key decides] The same `key` gives the same parameters, another `key` others.
#
# The arrays may lie anywhere, on the host, too.


# %% exercise="init_ensemble" minutes=16 difficulty=2
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

# %% [markdown]
# **Arguments that are no data.** A number that decides a *shape*, or a function, must
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
# ## 8. Training without talking
#
# Now train: `y = 2x - 1` plus noise, 8 points on each device. All start at the line that
# fits all points together best. Each device takes steps on **its own** points.


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
# **Predict, then run.** Will each loss fall? Will the eight models agree at the end?

# %%
step, losses = jax.pmap(local_step), jax.pmap(mse)
params, slopes = start, []
for _ in range(60):
    slopes.append(np.asarray(params["w"])[:, 0])  # waits for the step before
    params = step(params, train_x, train_y)
for when, state in (("before", start), ("after", params)):
    values = np.asarray(losses(state, train_x, train_y))
    print("loss", when, " ".join(f"{value:.2f}" for value in values))
draw_replicas(slopes, "slope w", "Replicas without communication (true slope: 2)")

# %% [markdown]
# **Common mistake: replicas that drift.** Every loss fell, so the log looks healthy.
# But these are different models, each fitted to its own part of the data. Code that
# saves `params["w"][0]` at the end keeps device 0's, throws the others away, and
# reports success.
#
# The cure is to average the gradients over the devices in every step. That takes a
# *collective*, the subject of lesson 2.

# %% [markdown]
# ### Exercise 1.7: local_sgd_steps
#
# Measure this drift. Write two functions.
#
# `local_sgd_steps(params, x, y, lr, num_steps)` starts from `{"w": (D, F), "b": (D,)}`
# and returns the same form, one row per device.
#
# - [each device descends] Each device takes `num_steps` steps (0 or more) of gradient
#   descent on `mse` with learning rate `lr`, from its own row of `params`, on its own
#   `x: (D, B, F)` and `y: (D, B)`.
# - [no communication] Devices send nothing.
#
# The check passes `lr` and `num_steps` as Python numbers; it traces the others.
#
# [the largest difference] `replica_spread(params)` returns one number for a tree of arrays
# `(D, ...)`, floats or small ints: the largest absolute difference of any entry from the
# replicas' mean of that entry, over all arrays. It may use NumPy.


# %% exercise="local_sgd_steps" minutes=24 difficulty=3
def local_sgd_steps(params, x, y, lr, num_steps):
    """Takes `num_steps` SGD steps on each device's own data.

    Args:
        params: {"w": f32 (D, F), "b": f32 (D,)}, a replica per device.
        x: f32 (D, B, F).
        y: f32 (D, B).
        lr: learning rate, a float.
        num_steps: number of steps, 0 or more.

    Returns:
        Like params, row d on device d.
    """

    ### BEGIN SOLUTION
    def run(params, x, y):
        def step(_, params):
            grads = jax.grad(mse)(params, x, y)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads)

        return jax.lax.fori_loop(0, num_steps, step, params)

    return jax.pmap(run)(params, x, y)
    ### END SOLUTION


def replica_spread(params):
    """Measures the largest distance of a replica from the replicas' mean: a number."""

    ### BEGIN SOLUTION
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))
    ### END SOLUTION


# %% [markdown] hints="local_sgd_steps"
# - Write the whole run for one device, then `pmap` it. `lr` and `num_steps` may come
#   from the enclosing function, which then compiles in each call.
# - `jax.lax.fori_loop(0, num_steps, step, params)` loops inside the compiled program;
#   its `step` takes `(i, params)`. A Python loop works too, inside the function that
#   you `pmap`: with 0 steps, too, the result lies on the devices.
# - For the spread, `jax.tree.leaves(params)` lists the arrays; the mean is over axis 0.

# %% check="local_sgd_steps"

# %% [markdown]
# **Your score.** The scorecard shows what the checks above said last. Save the notebook,
# then run `make grade` in a terminal, in the course's folder: it grades the saved file as
# a class's work is graded, and shows the same cards.

# %% scorecard=true
