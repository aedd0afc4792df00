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


# %% helpers="launch_env"
def check_flags(num_devices, env):  # launch_env, with XLA_FLAGS taken apart
    given, name = {*env}, "--xla_force_host_platform_device_count="
    result = launch_env(num_devices, env)
    if not isinstance(result, dict):
        return result
    flags = str(result.get("XLA_FLAGS", "")).split()
    counts = {flag.removeprefix(name) for flag in flags if flag.startswith(name)}
    counts |= {str(result.get("JAX_NUM_CPU_DEVICES", ""))} - {""}
    return {
        "device counts": " ".join(sorted(counts)),
        "other flags": " ".join(flag for flag in flags if not flag.startswith(name)),
        "env": {key: result.get(key) for key in given - {"XLA_FLAGS"}},
    }


def check_apart(num_devices, env):  # what is left of a change in the next call
    launch_env(num_devices, env)["CHANGED"] = "yes"
    return launch_env(num_devices, env).get("CHANGED", "")


# %% check="launch_env" points=1
old = "--xla_force_host_platform_device_count=2"
env = {"HOME": "/home/ada", "XLA_FLAGS": f"--xla_cpu_enable_fast_math=false {old}"}
statement("other variables stay")
seen = observe(launch_env, 4, env)
expect_entries(seen, {"HOME": "/home/ada"})
statement("arguments stay")
expect_unchanged(seen)
statement("other flags stay")
found = str(seen.value.get("XLA_FLAGS", "")).split()
rows = {"seen": " ".join(found), "expected": "--xla_cpu_enable_fast_math=false"}
kept = rows["expected"] in found
expect(seen, kept, "A flag in XLA_FLAGS is gone.", **rows)
statement("the old count is gone")
rows = {"seen": " ".join(found), "expected": f"XLA_FLAGS without {old}"}
expect(seen, old not in found, "The old device count is still there.", **rows)
statement("a fresh process sees them")
expect_child_devices(seen, 4)
statement("other variables stay")
expect_entries(observe(launch_env, 4, {"HOME": "/home/bob"}), {"HOME": "/home/bob"})
statement("below one device")
expect_error(observe(launch_env, 0, {}), "ValueError", mentions=[0])
expect_error(observe(launch_env, -3, {}), "ValueError", mentions=[-3])


### BEGIN HIDDEN TESTS
def cases(rng):
    name = "--xla_force_host_platform_device_count="
    old = "the old count is gone", "other flags stay"
    fast, dump = "--xla_cpu_enable_fast_math=true", "--xla_dump_hlo_as_text"
    for num_devices, flags, what in (
        (1, None, "other variables stay"),
        (3, "", "other flags stay"),
        (12, f"{name}2", old),
        (6, f"  {name}16   {fast} ", old),
        (2, f"{dump} {name}4 {fast} {name}128", old),
        (1000, f"{fast}  {dump}", "other flags stay"),
        (7, f"{dump} {fast} {name}70", old),
        (4, f"--a=1 --a=2 {name}3 --a=1", old),  # the last one counts
        (5, f"--xla_dump_to=/tmp/device_count {name}2", old),
        (9, f"--xla_dump_to=/tmp/{name.strip('-=')}_8", "other flags stay"),
    ):
        env = {"LANG": f"{rng.integers(99)}", "XLA_FLAGS": flags, "A": "b c", "NO": ""}
        env = {key: text for key, text in env.items() if text is not None}
        yield Case(num_devices, env, statements=what)
    yield Case(2, {}, statements="other variables stay")
    for num_devices in (0, -1, -25):
        yield Case(num_devices, {"XLA_FLAGS": fast}, mentions=[num_devices])


statement("a fresh process sees them")
expect_child_devices(observe(launch_env, 3, {"PATH": "/bin"}), 3)
statement("nothing is remembered")
seen = observe(check_apart, 5, {"HOME": "/root", "XLA_FLAGS": "--a=1"})
headline = "A change of one result is in the next one, too."
expect(seen, seen.value == "", headline)
statement("arguments stay")
right = "--xla_force_host_platform_device_count=5"
for count, flags in ((5, right), (5, f"--a=1 {right}"), (1, "--a=1"), (1, "")):
    seen = observe(check_apart, count, {"XLA_FLAGS": flags} if flags else {})
    headline = "A change of the result changes env: the result is no copy."
    expect(seen, seen.value == "", headline)
nothing = "texts, which lie on no device"
expect_like_solution(
    check_flags,
    cases,
    value="other variables stay",
    error="below one device",
    arguments="arguments stay",
    free={"layout collectives sent arrays compiles": nothing},
)
### END HIDDEN TESTS

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

# %% helpers="shard_batch"
from collections import OrderedDict, defaultdict
from typing import NamedTuple


class CheckPair(NamedTuple):  # a container that is no plain tuple
    first: object
    second: object


def check_cut(batch, num_devices, named=False):  # blocks, and in which containers
    if named:  # and by columns in memory
        columns = jax.tree.map(np.asfortranarray, batch)
        pair = OrderedDict(x=columns[0]), defaultdict(list, y=columns[1])
        batch = CheckPair(*pair)
    blocks = shard_batch(batch, num_devices)
    return {"tree": str(jax.tree.structure(blocks)), "arrays": jax.tree.leaves(blocks)}


# %% check="shard_batch" points=2
x = np.arange(48, dtype=np.float32).reshape(16, 3)
batch = {"x": x, "y": np.arange(16, dtype=np.int32)}
cut = {"x": x.reshape(8, 2, 3), "y": batch["y"].reshape(8, 2)}
dealt = {key: np.stack([a[d::8] for d in range(8)]) for key, a in batch.items()}
causes = {"the rows were dealt out like cards, not cut in order": dealt}
statement("the same tree", "dtypes stay")
seen = observe(shard_batch, batch, 8)
expect_shapes(seen, cut)
statement("order stays")
expect_close(seen, cut, mistakes=causes)
statement("arguments stay")
expect_unchanged(seen)
statement("the same tree")
quarters = x.reshape(4, 4, 3)
expect_close(observe(shard_batch, [{"x": x}, x], 4), [{"x": quarters}, quarters])
expect_close(observe(shard_batch, x, 4), quarters)
statement("uneven rows raise")
uneven = observe(shard_batch, x[:15], 8)
cause = "reshape raised this: test whether B divides before you reshape"
causes = {cause: lambda seen: seen.error and "cannot reshape" in seen.error.message}
expect_error(uneven, "ValueError", mentions=[15, 8], causes=causes)


### BEGIN HIDDEN TESTS
def cases(rng):
    def rows(count, *shape, dtype=np.float32):
        return np.asarray(rng.normal(size=(count, *shape)) * 50, dtype)

    yield Case({}, 4, statements="the same tree")
    yield Case(([], ()), 3, statements="the same tree")
    yield Case(rows(5), 1)
    yield Case((rows(3, 1) > 0, {}, [rows(3, dtype=jnp.bfloat16)]), 3)
    yield Case({"b": [jnp.asarray(rows(12, 2))], "a": (rows(12, dtype=np.int8),)}, 6)
    yield Case([rows(8, 2, 1, 3, dtype=np.uint8), rows(8, dtype=np.float16)], 8)
    yield Case(rows(72, dtype=np.int32), 12)
    for _ in range(2):
        yield Case((rows(6, 2), [rows(6)]), 2, True, statements="the same tree")
    for count, num_devices in ((2, 5), (7, 3), (22, 4)):
        batch = [{"x": rows(count, num_devices)}]
        yield Case(batch, num_devices, mentions=[count, num_devices])


expect_like_solution(
    check_cut,
    cases,
    value=("the same tree", "order stays", "dtypes stay"),
    error="uneven rows raise",
    arguments="arguments stay",
    free={"layout collectives sent arrays compiles": "nothing is placed"},
)
### END HIDDEN TESTS

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


# %% helpers="parallel_square"
def check_alone(function, *arguments):  # what runs before the rows are spread
    import re

    from coursekit import tracing

    spreads = r"shard_map|xla_pmap|Sharding\(|PartitionSpec|\w@\w"
    # What moves rows, or calls what does; anything else computes.
    moves = {"reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim"}
    moves |= {"slice", "dynamic_slice", "gather", "split", "concatenate", "pad", "rev"}
    moves |= {"convert_element_type", "device_put", "copy", "copy_p", "pjit", "jit"}
    moves |= {"stop_gradient", "optimization_barrier", "reshard"}
    num_rows = len(jax.tree.leaves(arguments[-1])[0])
    program = tracing.program_steps(function, *arguments)
    inputs = program.invars
    alone = {id(one) for one in inputs if one.aval.shape[:1] == (num_rows,)}
    found = []
    for step in program.eqns:
        text = str(step)
        if alone & {*map(id, step.invars)} and not re.search(spreads, text):
            alone |= {*map(id, step.outvars)}
            found += {*re.findall(r"(?<!,) = (\w+)", text)} - moves
    return found


def check_one_device(seen):
    return all(len(pieces) == 1 for pieces in seen.layout.values())


def check_square_alone(x):
    return check_alone(parallel_square, x)


def check_rows(tree):  # row d on device d
    return jax.pmap(lambda rows: rows)(tree)


def check_deleted(*arrays):
    return [leaf.is_deleted() for leaf in jax.tree.leaves(arrays)]


def check_square_placed(x):  # of what lies on the devices, and must stay there
    rows = check_rows(x)
    return {"result": parallel_square(rows), "deleted": check_deleted(rows)}


# %% check="parallel_square" points=1
num_devices = jax.device_count()  # 8, unless yours are real
x = np.arange(2 * num_devices, dtype=np.float32).reshape(num_devices, 2)
seen = observe(parallel_square, x, traced=True)
statement("shape and dtype stay")
expect_shapes(seen, x)
statement("each number squared")
expect_close(seen, x**2)
statement("it traces")
expect_arrays(seen)
statement("row d on device d")
causes = {"jax.pmap runs on a device per row; here is one": check_one_device}
expect_devices(seen, num_devices, causes=causes)
alone = observe(check_square_alone, x)
expect(alone, not alone.value, "One device squared all rows, before they were spread.")
statement("arguments stay")
expect_unchanged(seen)


### BEGIN HIDDEN TESTS
def cases(rng):
    before = ()
    for shape, dtype in (
        ((1, 2), np.int32),
        ((3,), np.float32),
        ((3,), np.float32),
        ((6, 1), np.uint8),
        ((4, 3), np.float16),
        ((2, 3, 1, 5), jnp.bfloat16),
    ):
        x = np.asarray(rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3), dtype)
        what = {"each number squared", "shape and dtype stay"}
        what |= {"nothing is remembered"} if shape == before else set()
        yield Case(jnp.asarray(x) if len(x) == 4 else x, statements=sorted(what))
        before = shape


expect_like_solution(
    parallel_square,
    cases,
    value=("each number squared", "shape and dtype stay"),
    layout="row d on device d",
    arguments="arguments stay",
    free={"error": "it raises none", "collectives sent arrays compiles": "none stated"},
)
statement("arguments stay")
seen = observe(check_square_placed, x[:3])
expect_result(seen)
expect(seen, not any(seen.value["deleted"]), "The rows of x were donated or deleted.")
expect_close(seen, {"result": x[:3] ** 2, "deleted": [False]})
### END HIDDEN TESTS

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


# %% helpers="parallel_predict"
def check_predict_alone(params, x):
    return check_alone(parallel_predict, params, x)


def check_predict_placed(params, x):  # with what lies on the devices, and must stay
    x = check_rows(x)
    params = jax.pmap(lambda p, x: p, in_axes=(None, 0), out_axes=None)(params, x)
    result = parallel_predict(params, x)
    return {"result": result, "deleted": check_deleted(params, x)}


# %% check="parallel_predict" points=2
rng = np.random.default_rng(0)
w, b = np.float32(rng.normal(size=(7, 5))), np.arange(5, dtype=np.float32)
num_devices = jax.device_count()
x = np.float32(rng.normal(size=(num_devices, 3, 7)))
product = np.float64(x) @ np.float64(w)
causes = {"the bias was not added": product}
statement("a prediction of each block")
seen = observe(parallel_predict, {"w": w, "b": b}, x, traced=True)
expect_close(seen, product + b, rtol=1e-4, atol=1e-5, mistakes=causes)
statement("it traces")
expect_arrays(seen)
statement("no stacked parameters")
expect_arrays(seen, largest=num_devices * 7 * 5 - 1)
statement("row d on device d")
causes = {"jax.pmap runs on a device per row; here is one": check_one_device}
expect_devices(seen, num_devices, causes=causes)
alone = observe(check_predict_alone, {"w": w, "b": b}, x)
headline = "One device predicted all blocks, before they were spread."
expect(alone, not alone.value, headline)
statement("arguments stay")
expect_unchanged(seen)


### BEGIN HIDDEN TESTS
def cases(rng):
    before = ()
    for sizes in (
        (1, 1, 1, 1),
        (3, 1, 2, 5),
        (3, 1, 2, 5),
        (6, 5, 7, 1),
        (8, 2, 11, 3),
        (3, 3, 3, 3),
    ):
        num_devices, num_rows, n_in, n_out = sizes
        w, b, x = (
            np.float32(rng.normal(size=shape) * rng.choice([0.01, 1, 300]))
            for shape in ((n_in, n_out), n_out, (num_devices, num_rows, n_in))
        )
        params = {"w": w, "b": b}
        placed = jax.tree.map(jnp.asarray, params) if num_devices == 6 else params
        what = ("nothing is remembered",) if sizes == before else ()
        yield Case(placed, x, statements=("a prediction of each block", *what))
        before = sizes


expect_like_solution(
    parallel_predict,
    cases,
    value="a prediction of each block",
    layout="row d on device d",
    arguments="arguments stay",
    free={
        "error": "it raises none",
        "arrays": "asked for above",
        "collectives sent compiles": "none stated",
    },
)
statement("arguments stay")
params = {"w": np.eye(2, dtype=np.float32), "b": np.ones(2, np.float32)}
x = np.ones((3, 2, 2), np.float32)
seen = observe(check_predict_placed, params, x)
expect_result(seen)
expect(seen, not any(seen.value["deleted"]), "An argument was donated or deleted.")
expect_close(seen, {"result": x + 1, "deleted": [False] * 3})
statement("no stacked parameters")  # more rows than devices, fewer than F and C
params = {"w": np.ones((24, 20), np.float32), "b": np.ones(20, np.float32)}
seen = observe(parallel_predict, params, np.ones((3, 12, 24), np.float32), traced=True)
expect_arrays(seen, largest=3 * 24 * 20 - 1)
### END HIDDEN TESTS

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
# **Common mistake: compiling at each call.** A lambda, or a function defined inside of
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

# Auto: JAX decides about layouts inside of jit. Lesson 4 shows the other kind.
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
# | `soft_pmap`, `xmap` (gone) | `shard_map`, or `vmap` inside of it |
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


# %% helpers="pairwise_distances"
def check_distances_alone(queries, points):
    return check_alone(lambda q, p: pairwise_distances(p, q), queries, points)


def check_distances_placed(points, queries):  # from what lies there, and must stay
    points, queries = check_rows(points), jnp.asarray(queries)
    result = pairwise_distances(points, queries)
    return {"result": result, "deleted": check_deleted(points, queries)}


# %% check="pairwise_distances" points=3
rng, num_devices = np.random.default_rng(1), jax.device_count()
far = np.float32(rng.normal(size=(num_devices, 4, 3)) + 1000)
far_queries = np.float32(rng.normal(size=(5, 3)) + 1000)
points, queries = far - 1000, far_queries - 1000  # exact: the distances stay
gaps = np.float64(points)[:, :, None] - queries
squares = (gaps**2).sum(-1)
mistakes = {"the square root is missing": squares}
mistakes["absolute differences were added up"] = np.abs(gaps).sum(-1)
statement("each distance")
seen = observe(pairwise_distances, points, queries, traced=True)
expect_close(seen, np.sqrt(squares), rtol=1e-4, mistakes=mistakes)
statement("it traces")
expect_arrays(seen)
statement("never all differences")
causes = {"jax.pmap runs on a device per row; here is one": check_one_device}
expect_arrays(seen, largest=num_devices * 4 * 5 * 3 - 1, causes=causes)
statement("row d on device d")
expect_devices(seen, num_devices, causes=causes)
alone = observe(check_distances_alone, queries, points)
expect(alone, not alone.value, "One device did the work, before the rows were spread.")
statement("four digits")
cause = "right near 0, not near 1000: what is subtracted after squaring cancels"
causes = {cause: lambda seen: np.allclose(seen.value, np.sqrt(squares), atol=2)}
seen = observe(pairwise_distances, far, far_queries)
expect_close(seen, np.sqrt(squares), rtol=1e-4, causes=causes)
statement("arguments stay")
expect_unchanged(seen)


### BEGIN HIDDEN TESTS
def cases(rng):
    before = ()
    for sizes, center, width in (
        ((1, 1, 1, 1), 0, 1),
        ((3, 1, 2, 7), 1000, 1),
        ((3, 1, 2, 7), -2000, 20),
        ((6, 5, 3, 1), 0, 1e-3),
        ((4, 2, 11, 2), 0, 1e5),
        ((2, 4, 4, 3), 0, 1),  # as many points as queries
        ((2, 4, 4, 2), 1000, 1),
        ((3, 3, 3, 3), 0, 1),
        ((2, 67, 131, 3), 0, 1),  # no multiples of a chunk
    ):
        num_devices, num_points, num_queries, width_of_row = sizes
        shape = num_devices, num_points, width_of_row
        points = np.float32(center + width * rng.normal(size=shape))
        shape = num_queries, width_of_row
        queries = np.float32(center + width * rng.normal(size=shape))
        queries[-1] = points[-1, -1]  # a distance of 0
        if sizes == (2, 4, 4, 2):  # on both sides of 0
            points[:, ::2] -= 2 * center
            queries[::2] -= 2 * center
        if num_devices == 4:
            points, queries = jnp.asarray(points), jnp.asarray(queries)
        what = ("nothing is remembered",) if sizes == before else ()
        what += ("four digits",) if center else ("each distance",)
        yield Case(points, queries, rtol=1e-4, atol=1e-5 * width, statements=what)
        before = sizes


expect_like_solution(
    pairwise_distances,
    cases,
    value="each distance",
    layout="row d on device d",
    arguments="arguments stay",
    free={
        "error": "it raises none",
        "arrays": "asked for above",
        "collectives sent compiles": "none stated",
    },
)
statement("arguments stay")
points, queries = np.zeros((3, 2, 2), np.float32), np.zeros((2, 2), np.float32)
seen = observe(check_distances_placed, points, queries)
expect_result(seen)
expect(seen, not any(seen.value["deleted"]), "An argument was donated or deleted.")
expect_close(seen, {"result": points, "deleted": [False] * 2})
### END HIDDEN TESTS

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


# %% helpers="init_ensemble"
def check_layers(num_devices, sizes):  # what init_ensemble returns, but for the numbers
    return [
        {
            "w": np.zeros((num_devices, n_in, n_out), np.float32),
            "b": np.zeros((num_devices, n_out), np.float32),
        }
        for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True)
    ]


def check_draws(layers):  # {(layer, device): its weights as standard normal numbers}
    return {
        (number, device): w.ravel() * np.sqrt(len(w))
        for number, layer in enumerate(layers)
        for device, w in enumerate(np.float64(layer["w"]))
    }


def check_moments(draws):  # which moment of whose weights is off, seen, expected
    groups = {f"layer {n} of device {d}": draw for (n, d), draw in draws.items()}
    for layer in sorted({number for number, _ in draws}):
        parts = [draw for (number, _), draw in draws.items() if number == layer]
        groups[f"layer {layer}"] = np.concatenate(parts)
    for name, draw in groups.items():
        mean, std = draw.mean(), draw.std()
        shape, error = np.mean(((draw - mean) / std) ** 4), 6 / np.sqrt(draw.size)
        if not (abs(mean) < error and abs(std - 1) < error):
            headline = f"The weights of {name} have another mean or deviation."
            seen = f"mean {mean:.2f} / sqrt(n_in), deviation {std:.2f} / sqrt(n_in)"
            return headline, seen, "mean 0, deviation 1 / sqrt(n_in)"
        if not abs(shape - 3) < 5 * error:
            seen = f"a mean fourth power of {shape:.2f}, where the second's is 1"
            return (
                f"The weights of {name} are not normal.",
                seen,
                "3, of normal numbers",
            )
    return None


def check_shared(draws):  # whose weights share numbers, or move together
    numbers = {name: np.unique(np.abs(draw).round(5)) for name, draw in draws.items()}
    pairs = [(a, b) for a in draws for b in draws if a < b]
    for a, b in pairs:
        size = min(draws[a].size, draws[b].size)
        alike = np.corrcoef(draws[a][:size], draws[b][:size])[0, 1]
        both = np.intersect1d(numbers[a], numbers[b]).size
        share = both / min(numbers[a].size, numbers[b].size)
        if share > 0.2 or abs(alike) * np.sqrt(size) > 6:
            names = " and ".join(f"layer {n} of device {d}" for n, d in (a, b))
            seen = f"{share:.0%} of the numbers in common, correlation {alike:.2f}"
            return f"The weights of {names} are alike.", seen, "independent draws"
    few = [name for name in draws if numbers[name].size < 0.8 * draws[name].size]
    for number, device in few:
        seen = f"{numbers[number, device].size} distinct numbers"
        headline = f"Weights of layer {number} of device {device} repeat."
        return headline, seen, "independent draws"
    return None


def check_equal(layers, others):  # which weights are the same
    draws, more = check_draws(layers), check_draws(others)
    equal = [place for place in draws if np.allclose(draws[place], more[place])]
    return [f"layer {number} of device {device}" for number, device in equal]


def check_scales():  # by which mistake all deviations are what they are
    def is_each(scale):
        def is_so(seen):
            weights = [layer["w"] for layer in seen.value]
            return all(0.9 < w.std() / scale(*w.shape[1:]) < 1.1 for w in weights)

        return is_so

    return {
        "they are not scaled by 1 / sqrt(n_in)": is_each(lambda n_in, n_out: 1),
        "they were divided by n_in, not by its root": is_each(lambda n, _: 1 / n),
        "n_out was taken for n_in": is_each(lambda _, n_out: n_out**-0.5),
    }


def check_same(draws, position):  # whether layers (0) or devices (1) share their draws
    firsts = {}
    for place, draw in draws.items():
        firsts.setdefault(place[1 - position], set()).add(round(draw[0], 4))
    return all(len(first) == 1 for first in firsts.values())


# %% check="init_ensemble" points=3
sizes, members = (64, 32, 128), jax.device_count()
statement("a list of layers")
seen = observe(init_ensemble, jax.random.key(3), members, sizes)
expect_shapes(seen, check_layers(members, sizes))
statement("arguments stay")
expect_unchanged(seen)
statement("zero biases")
for number, layer in enumerate(seen.value):
    expect(seen, not layer["b"].any(), f"The biases of layer {number} are not zero.")
statement("a key for each")
draws = check_draws(seen.value)
causes = {
    "the devices share a key": lambda seen: check_same(draws, 1),
    "the layers share a key": lambda seen: check_same(draws, 0),
}
headline, was, wanted = check_shared(draws) or ("", "", "")
expect(seen, not headline, headline, causes=causes, seen=was, expected=wanted)
statement("normal weights")
causes = check_scales()
headline, was, wanted = check_moments(draws) or ("", "", "")
expect(seen, not headline, headline, causes=causes, seen=was, expected=wanted)
statement("the key decides")
keys = map(jax.random.key, (3, 4))
again, other = (observe(init_ensemble, key, members, sizes) for key in keys)
for one in (again, other):
    expect_shapes(one, check_layers(members, sizes))
kept = check_equal(seen.value, again.value)
expect(again, len(kept) == len(draws), "The same key gave other weights.")
kept = ", ".join(check_equal(seen.value, other.value)[:1])
expect(other, not kept, f"Keys 3 and 4 gave the same weights to {kept}.")

### BEGIN HIDDEN TESTS
many = 3 + 2**16  # in 16 bits this is 3
half = jax.random.wrap_key_data(np.uint32([7, 3]))  # its last word is that of key 3
for text, key in ((f"{many}", jax.random.key(many)), ("7, 3", half)):
    other = observe(init_ensemble, key, 8, sizes)
    expect_shapes(other, check_layers(8, sizes))
    kept = ", ".join(check_equal(seen.value, other.value)[:1])
    expect(other, not kept, f"Keys 3 and {text} gave the same weights to {kept}.")
for number, members, sizes in ((7, 1, (2, 900)), (9, 6, (1, 30, 30, 30))):
    statement("a list of layers", "zero biases")
    seen = observe(init_ensemble, jax.random.key(number), members, sizes)
    expect_shapes(seen, check_layers(members, sizes))
    expect(seen, not any(layer["b"].any() for layer in seen.value), "Biases are not 0.")
    statement("a key for each")
    headline, was, wanted = check_shared(check_draws(seen.value)) or ("", "", "")
    expect(seen, not headline, headline, seen=was, expected=wanted)
    statement("normal weights")
    headline, was, wanted = check_moments(check_draws(seen.value)) or ("", "", "")
    expect(seen, not headline, headline, seen=was, expected=wanted)
seen = observe(init_ensemble, jax.random.key(11), 8, (1, 1, 1, 1))  # few numbers
expect_shapes(seen, check_layers(8, (1, 1, 1, 1)))
draws = np.concatenate([*check_draws(seen.value).values()])
headline, was, wanted = check_moments({("0 to 2", "0 to 7"): draws}) or ("", "", "")
expect(seen, not headline, headline, seen=was, expected=wanted)
statement("a list of layers")
sizes = (500, 500, *[2] * 11)  # many numbers, then many layers
seen = observe(init_ensemble, jax.random.key(13), 2, sizes)
expect_shapes(seen, check_layers(2, sizes))
draws = check_draws(seen.value)
statement("normal weights")
many = {(0, device): draws[0, device] for device in (0, 1)}
headline, was, wanted = check_moments(many) or ("", "", "")
expect(seen, not headline, headline, seen=was, expected=wanted)
statement("a key for each")
firsts = {}
for place, draw in draws.items():
    firsts.setdefault(round(draw[0], 5), []).append(
        "layer {} of device {}".format(*place)
    )
alike = [" and ".join(names) for names in firsts.values() if len(names) > 1]
headline = f"The weights of {', '.join(alike[:1])} are alike."
expect(seen, not alike, headline, seen="draws in common", expected="independent draws")
### END HIDDEN TESTS

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
#   its `step` takes `(i, params)`. A Python loop works too, inside of the function that
#   you `pmap`: with 0 steps, too, the result lies on the devices.
# - For the spread, `jax.tree.leaves(params)` lists the arrays; the mean is over axis 0.


# %% helpers="local_sgd_steps"
import contextlib

from coursekit.compiled_program import CompiledProgram


def check_run(params, x, y, lr, num_steps, average=False):  # the steps, in 64 bits
    w, b = np.float64(params["w"]), np.float64(params["b"])
    for _ in range(num_steps):
        error = np.einsum("dbf,df->db", x, w) + b[:, None] - y
        dw = 2 * np.einsum("db,dbf->df", error, x) / x.shape[1]
        db = 2 * error.mean(1)
        if average:  # what lesson 2 will do
            dw, db = (grad.mean(0, keepdims=True) for grad in (dw, db))
        w, b = w - lr * dw, b - lr * db
    return {"w": w, "b": b}


def check_steps_alone(lr, num_steps, *arrays):
    def run(*arrays):
        return local_sgd_steps(*arrays, lr, num_steps)

    return check_alone(run, *arrays)


def check_sent(params, x, y, lr, num_steps):  # collectives of all of it, compiled
    def run(params, x, y):
        return local_sgd_steps(params, x, y, lr, num_steps)

    if jax.version.__version_info__ < (0, 8):  # pmap inside of jit joins the rows
        return []
    found = []
    with contextlib.suppress(Exception):  # what JAX does not compile as a whole
        program = jax.jit(run).lower(*check_rows((params, x, y))).compile()
        found = [str(one) for one in CompiledProgram(program).collectives]
    return found


def check_placed(params, x, y, lr, num_steps):  # of what lies there, and must stay
    params, x, y = check_rows((params, x, y))
    trained = local_sgd_steps(params, x, y, lr, num_steps)
    spread = replica_spread(trained)
    return {"spread": spread, "deleted": check_deleted(params, x, y)}


# %% check="local_sgd_steps" points=3
num_devices = jax.device_count()
data = np.float32(np.random.default_rng(4).normal(size=(num_devices, 6, 4)))
x, y, rows = data[..., :3], data[..., 3], np.ones((num_devices, 3), np.float32)
params = {"w": rows, "b": 0 * rows[:, 0]}
expected = check_run(params, x, y, 0.05, 20)
causes = {
    "gradients were averaged": check_run(params, x, y, 0.05, 20, average=True),
    "the gradient was added": check_run(params, x, y, -0.05, 20),
    "the step used 0.1 in place of lr": check_run(params, x, y, 0.1, 20),
    "one step is missing": check_run(params, x, y, 0.05, 19),
}
statement("each device descends")
seen = observe(local_sgd_steps, params, x, y, 0.05, 20, traced=True)
expect_close(seen, expected, rtol=1e-4, atol=1e-5, mistakes=causes)
statement("arguments stay")
expect_unchanged(seen)
statement("it traces", "no communication")
expect_collectives(seen, {})
statement("row d on device d")
expect_devices(seen, num_devices)
expect_devices(observe(local_sgd_steps, params, x, y, 0.05, 0), num_devices)
alone = observe(check_steps_alone, 0.05, 3, params, x, y)
expect(alone, not alone.value, "One device did the steps, before the rows were spread.")
statement("the largest difference")
tree = [np.float32([0, 0, 0, 1]), {"w": np.float32([[5, 0], [5, 0], [5, 0], [1, 2]])}]
mistakes = {"it is a standard deviation": 3**0.5, "it is between two replicas": 4.0}
expect_close(observe(replica_spread, tree), 3.0, mistakes=mistakes)


### BEGIN HIDDEN TESTS
def cases(rng):
    before = ()
    for num_devices, num_rows, width, lr, num_steps in (
        (1, 1, 2, 0.3, 1),
        (3, 5, 1, 0.07, 7),
        (3, 5, 1, 0.07, 7),
        (3, 5, 1, 0.002, 7),
        (3, 5, 1, 0.08, 9),
        (6, 2, 3, 0.01, 0),
    ):
        w, b, x, y = (
            np.float32(rng.normal(size=(num_devices, *shape)) * 2 + 0.5)
            for shape in ((width,), (), (num_rows, width), (num_rows,))
        )
        if num_devices == 6:
            w, b, x, y = map(jnp.asarray, (w, b, x, y))
        if lr == 0.08:
            x[1, 0] = np.nan  # this replica is lost, the others go on
        what = ("nothing is remembered",) if x.shape == before else ()
        what += ("each device descends",)
        yield Case({"w": w, "b": b}, x, y, lr, num_steps, statements=what)
        before = x.shape


def trees(rng):
    def leaf(*shape):
        return np.float32((rng.normal(size=shape) + 5) * 10.0 ** rng.integers(-3, 4))

    for _ in range(2):
        yield Case({"b": leaf(3), "a": leaf(3, 2)})
    yield Case(leaf(1, 4))
    yield Case({"w": np.full((4, 2), -0.1, np.float32)})
    yield Case((leaf(6, 1, 3), [jnp.asarray(leaf(6)), {"c": 1e6 * leaf(6, 2, 2, 2)}]))
    yield Case((leaf(4), 1e6 * leaf(4, 3), [leaf(4, 2)]))
    yield Case([-np.abs(leaf(8, 5)), leaf(8)])
    yield Case({"step": np.int32([0, 0, 0, 3]), "w": leaf(4) / 1e6})


free = {"error": "it raises none", "arrays compiles": "none stated"}
expect_like_solution(
    local_sgd_steps,
    cases,
    scales=(0, 1e-3, 1000),
    value="each device descends",
    layout="row d on device d",
    arguments="arguments stay",
    free=free | {"collectives sent": "asked for above"},
)
expect_like_solution(
    replica_spread,
    trees,
    value="the largest difference",
    arguments="arguments stay",
    free=free | {"layout collectives sent": "a number"},
)
statement("arguments stay", "the largest difference")
expected = check_run(params, x, y, 0.05, 20)
spread = max(np.abs(leaf - leaf.mean(0)).max() for leaf in expected.values())
seen = observe(check_placed, params, x, y, 0.05, 20)
expect_result(seen)
expect(seen, not any(seen.value["deleted"]), "An argument was donated or deleted.")
expect_close(seen, {"spread": spread, "deleted": [False] * 4}, rtol=1e-3)
statement("no communication")
seen = observe(check_sent, params, x, y, 0.05, 20)
headline = "The compiled program sends something."
expect(seen, not seen.value, headline, seen="; ".join(seen.value or ()))
### END HIDDEN TESTS

# %% scorecard=true
