# %% [markdown]
# # Lesson 1. pmap: one program, many devices
#
# COLAB_BADGE
#
# A cluster trains one model on many devices at once. You will learn how on your laptop,
# with eight devices that JAX simulates. The same programs run on eight GPUs.
#
# **After this lesson you can**
#
# - start a process with as many simulated devices as you like;
# - run one function on all of them with `jax.pmap`, and say what lies where;
# - split a batch, broadcast parameters, and give each device its own randomness;
# - recognise replicas (a model's copies, one per device) that drift apart.
#
# **You need** NumPy, and a first look at `jax.jit` and `jax.grad`. **Time**: about 90
# minutes, seven exercises.

# %% setup=true

# %% [markdown]
# These are your devices. Each has memory of its own: an array that lies on device 0
# cannot be read by device 1 unless somebody sends it.
#
# Below, exercises wait for you. Each is followed by a check, which judges the exercise
# as it was **last run**: after a change, run the exercise's cell, then its check.

# %%
draw_devices()

# %% [markdown]
# ## 1. Eight devices out of one CPU
#
# XLA, the compiler below JAX, reads the environment variable `XLA_FLAGS` **once**: when
# JAX first touches a device. The flag `--xla_force_host_platform_device_count=8` then
# splits the CPU into eight devices. Later changes are ignored without a word.
#
# **Predict, then run.** The cell below starts two fresh Python processes. Both set the
# flag after `import jax`; the first one has already counted its devices by then. What
# will each print?

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


print("set after JAX has started:", run_child(TOO_LATE), "device")
print("set before its first use: ", run_child(IN_TIME), "devices")

# %% [markdown]
# **Common mistake: the flag that comes too late.** Nothing failed in the first process.
# It would train on one device, and you would never be told. So programs that must not
# get this wrong are *launched* with the right environment, which is the first exercise.

# %% [markdown]
# ### Exercise 1.1: launch_env
#
# Write the environment for a new process. `launch_env(num_devices, env)` returns a
# **copy** of the dict `env` with which a fresh Python process sees `num_devices` CPU
# devices.
#
# - Every other variable stays, and so do other flags in `XLA_FLAGS`, if there are any.
# - A device count that is already there is replaced.
# - Below one device: `ValueError`, and its text names the number.


# %% exercise="launch_env" minutes=8 difficulty=1
def launch_env(num_devices, env):
    """Returns a copy of `env` that gives a fresh process `num_devices` CPU devices.

    Args:
        num_devices: how many, at least 1.
        env: dict of str to str; it may hold XLA_FLAGS, also with an earlier count.

    Raises:
        ValueError: num_devices is below 1; the text names it.
    """
    ### BEGIN SOLUTION
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    flags = env.get("XLA_FLAGS", "").split()
    flags = [flag for flag in flags if not flag.startswith(name)]
    flags.append(f"{name}={num_devices}")
    return {**env, "XLA_FLAGS": " ".join(flags)}
    ### END SOLUTION


# %% [markdown] hints="launch_env"
# - `XLA_FLAGS` holds flags separated by spaces: `str.split` and `" ".join` take it
#   apart and put it together. It may be missing from `env`.
# - Keep the flags that do not start with `--xla_force_host_platform_device_count`, then
#   append your own.
# - `{**env, "XLA_FLAGS": text}` is a new dict; `env["XLA_FLAGS"] = text` changes the
#   caller's.

# %% check="launch_env" points=1
flags = "--xla_cpu_enable_fast_math=false --xla_force_host_platform_device_count=2"
env = {"HOME": "/home/ada", "XLA_FLAGS": flags}
seen = observe(launch_env, 4, env)
expect_unchanged(seen)
expect_entries(seen, {"HOME": "/home/ada"})
flags = seen.value.get("XLA_FLAGS", "")
rows = {"seen": flags, "expected": "--xla_cpu_enable_fast_math=false"}
expect(seen, "fast_math=false" in flags, "A flag in XLA_FLAGS is gone.", **rows)
expect_child_devices(seen, 4)
expect_entries(observe(launch_env, 4, {"HOME": "/home/bob"}), {"HOME": "/home/bob"})
expect_error(observe(launch_env, 0, {}), "ValueError", mentions=[0])
expect_error(observe(launch_env, -3, {}), "ValueError", mentions=[-3])
### BEGIN HIDDEN TESTS
expect_child_devices(observe(launch_env, 3, {"PATH": "/bin"}), 3)
seen = observe(launch_env, 1, {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"})
kept = "fast_math=true" in seen.value.get("XLA_FLAGS", "")
expect(seen, kept, "A flag in XLA_FLAGS is gone.")
### END HIDDEN TESTS

# %% [markdown]
# ## 2. pmap and the leading device axis
#
# `jax.pmap(f)` runs `f` on several devices at once: one program, many devices, each
# with data of its own (SPMD). If you know MPI, think of a device as a rank.
#
# The data's **leading axis** says who gets what. From `x: f32[8, 2]`, an array of
# 32-bit floats with 8 rows, device 3 receives `x[3]: f32[2]`. `f` never sees the axis;
# the results come back stacked along it.
#
# **Predict, then run.** What shape does `y` have? Where does its row 3 lie?


# %%
def f(x):  # x: f32[2], one device's row
    return x**2 + jnp.sin(x)


x = np.linspace(0, 3, 16, dtype=np.float32).reshape(8, 2)
y = jax.pmap(f)(x)
print("x:", x.shape, "  y:", y.shape, "  same as f(x):", np.allclose(y, f(x)))
draw_pmap("f", {"x": x}, {"y": y})

# %% [markdown]
# Nothing was gathered at the end. `y` is one array whose rows, its **shards**, still
# lie where they were computed. (Indexing is a program of its own: newer versions of JAX
# hand the row `y[3]` to every device.)

# %%
draw_array(y, "y = pmap(f)(x)")

# %% [markdown]
# A leading axis shorter than the number of devices uses the first devices only. A
# longer one is a `ValueError`, and so are two mapped arguments of different lengths.

# %%
four = jax.pmap(f)(x[:4])
print("4 rows:", four.shape, "on", len(four.addressable_shards), "devices")

# %% [markdown]
# A batch has no device axis yet: 128 images of 784 pixels are `f32[128, 784]`. So we
# cut its first axis into two: 8 devices x 16 images, `f32[8, 16, 784]`.

# %%
images = np.zeros((128, 784), np.float32)
blocks = images.reshape(8, 16, 784)
means = jax.pmap(lambda block: block.mean(axis=1))(blocks)  # block: f32[16, 784]
draw_pmap("mean", {"blocks": blocks}, {"means": means})

# %% [markdown]
# ### Exercise 1.2: shard_batch
#
# Real batches are *pytrees*: arrays in nested dicts, lists and tuples, or one bare
# array. `shard_batch(batch, num_devices)` takes a pytree of arrays `(B, ...)` and
# returns the same tree of arrays `(num_devices, B / num_devices, ...)`.
#
# - Order stays: device 0 gets the first `B / num_devices` rows. Dtypes stay too.
# - Where `B` does not divide: `ValueError`, and its text names both sizes.


# %% exercise="shard_batch" minutes=8 difficulty=1
def shard_batch(batch, num_devices):
    """Splits the leading axis of every array in `batch` over the devices.

    Args:
        batch: pytree of arrays (B, ...).
        num_devices: number of blocks.

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
# - For one array: `x.reshape(num_devices, -1, *x.shape[1:])`. Test whether `B` divides
#   before you reshape.

# %% check="shard_batch" points=2
x = np.arange(48, dtype=np.float32).reshape(16, 3)
batch = {"x": x, "y": np.arange(16, dtype=np.int32)}
cut = {"x": x.reshape(8, 2, 3), "y": batch["y"].reshape(8, 2)}
dealt = {key: np.stack([a[d::8] for d in range(8)]) for key, a in batch.items()}
causes = {"the rows were dealt out like cards, not cut in order": dealt}
seen = observe(shard_batch, batch, 8)
expect_close(seen, cut, mistakes=causes)
expect_unchanged(seen)
quarters = x.reshape(4, 4, 3)
expect_close(observe(shard_batch, [{"x": x}, x], 4), [{"x": quarters}, quarters])
uneven = observe(shard_batch, x[:15], 8)
likely = "test whether B divides before you reshape: what reshape raises says less"
expect_error(uneven, "ValueError", mentions=[15, 8], likely=likely)


### BEGIN HIDDEN TESTS
def split(a, num_devices):
    return a.reshape(num_devices, len(a) // num_devices, *a.shape[1:])


pixels = np.arange(160, dtype=np.uint8).reshape(8, 5, 4)
nested = {"image": pixels, "more": (pixels[:, 0, 0] > 40, [np.float16(pixels)])}
for num_devices in (1, 2, 4, 8):
    expected = jax.tree.map(lambda a, n=num_devices: split(a, n), nested)
    expect_close(observe(shard_batch, nested, num_devices), expected)
expect_error(observe(shard_batch, [x[:10]], 4), "ValueError", mentions=[10, 4])
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 1.3: parallel_square
#
# Your first distributed function. `parallel_square(x)` takes `x: (D, ...)` and returns
# its square, of the same shape and dtype, computed on `D` devices: row `d` of the
# result lies on one device of its own.
#
# The check reads the program that JAX traces, so use `jnp`, not `np`, on `x`. This holds
# for every exercise below whose result lies on devices.


# %% exercise="parallel_square" minutes=4 difficulty=1
def parallel_square(x):
    """Squares `x: (D, ...)` on D devices, one row of the leading axis on each."""
    ### BEGIN SOLUTION
    return jax.pmap(lambda row: row**2)(x)
    ### END SOLUTION


# %% [markdown] hints="parallel_square"
# - `jax.pmap(g)` is a function. Call it on `x`.
# - `g` receives one row, without the leading axis: it only has to square it.

# %% check="parallel_square" points=1
x = np.arange(16, dtype=np.float32).reshape(8, 2)
seen = observe(parallel_square, x, traced=True)
expect_close(seen, x**2)
expect_devices(seen, 8, likely="computed as one array on one device, without jax.pmap")
### BEGIN HIDDEN TESTS
for num_devices in (2, 4):
    x = np.arange(num_devices * 6, dtype=np.int32).reshape(num_devices, 2, 3) - 5
    seen = observe(parallel_square, x, traced=True)
    expect_close(seen, x**2)
    expect_devices(seen, num_devices)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. pmap beside vmap
#
# `jax.vmap(f)` also maps a function over a leading axis, and gives the same numbers.
# But it stays on **one** device: it turns `f` into one larger operation. `pmap` starts
# `f` on **many** devices.
#
# They combine: `pmap` over the device axis, `vmap` inside over a device's own rows.

# %%
x = np.linspace(0, 3, 16, dtype=np.float32).reshape(8, 2)
by_vmap, by_pmap = jax.vmap(f)(x), jax.pmap(f)(x)
print("same numbers:", np.allclose(by_vmap, by_pmap))
draw_array(by_vmap, "vmap(f)(x)")

# %% [markdown]
# ## 4. Broadcasting with in_axes
#
# Devices share the model and differ in their data. `in_axes` says so per argument: `0`
# splits the leading axis, `None` sends the whole argument to every device (it is
# *broadcast*; NumPy's shape rules are another thing). One `None` covers a whole tree of
# parameters.
#
# Here `x: f32[8, 4, 3]` is split, and the parameters go to everybody.


# %%
def predict(params, x):  # x: f32[B, F] -> f32[B, C]
    return x @ params["w"] + params["b"]


def total(params, x):
    return predict(params, x).sum()


params = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
x = np.ones((8, 4, 3), np.float32)
totals = jax.pmap(total, in_axes=(None, 0))(params, x)
print("one number per device:", totals)
draw_pmap("total", {"x": x}, {"totals": totals}, {"params": params})

# %% [markdown]
# **Common mistake: no `in_axes`.** Then `pmap` looks for a device axis in the
# parameters too. You are lucky if that fails: with 8 devices, `w: f32[8, 8]` and `b:
# f32[8]` it runs, and each device gets one row of `w` and one number of `b`.

# %% [markdown]
# ### Exercise 1.4: parallel_predict
#
# `parallel_predict(params, x)` runs `predict` above on all devices. The parameters
# `{"w": (F, C), "b": (C,)}` are broadcast, the batch `x: (D, B, F)` is mapped; the
# result is `(D, B, C)`, one block per device.
#
# Do not stack `D` copies of the parameters yourself: the check reads the traced
# program, which must hold no array `(D, F, C)`.


# %% exercise="parallel_predict" minutes=6 difficulty=1
def parallel_predict(params, x):
    """Applies `predict` to one block of `x` per device, with the same parameters.

    Args:
        params: {"w": (F, C), "b": (C,)}, without a device axis.
        x: (D, B, F).

    Returns:
        (D, B, C), one row of the leading axis on each of D devices.
    """
    ### BEGIN SOLUTION
    return jax.pmap(predict, in_axes=(None, 0))(params, x)
    ### END SOLUTION


# %% [markdown] hints="parallel_predict"
# - Without `in_axes`, `pmap` would look for a device axis in the parameters as well.
# - `in_axes` is a tuple with one entry per argument of `predict`.

# %% check="parallel_predict" points=2
rng = np.random.default_rng(0)
w, b = np.float32(rng.normal(size=(3, 5))), np.arange(5, dtype=np.float32)
x = np.float32(rng.normal(size=(8, 4, 3)))
product = np.float64(x) @ np.float64(w)
causes = {"the bias was not added": product}
seen = observe(parallel_predict, {"w": w, "b": b}, x, traced=True)
expect_close(seen, product + b, rtol=1e-4, atol=1e-5, mistakes=causes)
expect_devices(seen, 8, likely="computed on one device, without jax.pmap")
likely = "the parameters were stacked by hand; in_axes=None sends them whole"
expect_arrays(seen, never=(8, 3, 5), likely=likely)
### BEGIN HIDDEN TESTS
for num_devices in (2, 4):
    x = np.float32(rng.normal(size=(num_devices, 6, 3)))
    seen = observe(parallel_predict, {"w": w, "b": b}, x, traced=True)
    expected = np.float64(x) @ np.float64(w) + b
    expect_close(seen, expected, rtol=1e-4, atol=1e-5)
    expect_devices(seen, num_devices)
    expect_arrays(seen, never=(num_devices, 3, 5))
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 1.5: pairwise_distances
#
# `points: (D, N, F)` are split, `queries: (Q, F)` go to every device. Return the
# Euclidean distance of each point to each query, `(D, N, Q)`, one block per device:
# `pmap` over `vmap`.
#
# - Memory is what large models run out of, so no array `(D, N, Q, F)` of all
#   differences may exist in the program. One device's block `(N, Q, F)` is fine.
# - Four digits must be right, also for points with coordinates near 1000: subtract
#   before you square.


# %% exercise="pairwise_distances" minutes=12 difficulty=2
def pairwise_distances(points, queries):
    """Computes distances from each device's points to all queries.

    Args:
        points: f32 (D, N, F), one block per device.
        queries: f32 (Q, F), the same on every device.

    Returns:
        f32 (D, N, Q), one row of the leading axis on each of D devices.
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

# %% check="pairwise_distances" points=3
rng = np.random.default_rng(1)
points = np.float32(rng.normal(size=(8, 4, 3)) + 1000)
queries = np.float32(rng.normal(size=(5, 3)) + 1000)
gaps = np.float64(points)[:, :, None] - np.float64(queries)
squares = (gaps**2).sum(-1)
causes = {"the square root is missing": squares}
causes["absolute differences were added up"] = np.abs(gaps).sum(-1)
imprecise = "|p|^2 - 2pq + |q|^2 cancels near 1000: subtract before you square"
seen = observe(pairwise_distances, points, queries, traced=True)
expected = np.sqrt(squares)
expect_close(seen, expected, rtol=1e-4, mistakes=causes, imprecise=imprecise)
expect_devices(seen, 8, likely="computed on one device, without jax.pmap")
likely = "the differences of all devices were built at once"
expect_arrays(seen, largest=8 * 4 * 5, likely=likely)
### BEGIN HIDDEN TESTS
for num_devices, rows in ((2, 6), (4, 1)):
    points = np.float32(rng.normal(size=(num_devices, rows, 7)))
    queries = np.float32(rng.normal(size=(9, 7)))
    gaps = np.float64(points)[:, :, None] - np.float64(queries)
    seen = observe(pairwise_distances, points, queries, traced=True)
    expect_close(seen, np.sqrt((gaps**2).sum(-1)), rtol=1e-4)
    expect_devices(seen, num_devices)
    expect_arrays(seen, largest=rows * 9 * 7)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. pmap compiles for you
#
# `pmap` includes `jit`. Python runs your function **once**, to trace it; all eight
# devices run the one compiled program. A new shape or dtype means a new program.
#
# **Predict, then run.** How often does `traced` grow in each of the three calls?

# %%
traced = 0


def count_traces(x):
    global traced
    traced += 1  # Python runs this while tracing, the devices never do
    return 2 * x


parallel = jax.pmap(count_traces)
for shape in [(8, 2), (8, 2), (8, 3)]:
    parallel(np.ones(shape, np.float32))
    print(shape, "traced so far:", traced)

# %% [markdown]
# ## 6. Randomness of its own for each device
#
# JAX draws random numbers from a *key*: the same key, the same numbers.
# `jax.random.split(key, n)` makes `n` new keys out of one.
#
# A key is data like any other. Broadcast one key, and all devices draw the same
# numbers. Split it, and each device gets its own.


# %%
def noisy(key, x):  # one number on each device
    return x + jax.random.normal(key)


key, zeros = jax.random.key(0), np.zeros(8, np.float32)
same = jax.pmap(noisy, in_axes=(None, 0))(key, zeros)
own = jax.pmap(noisy)(jax.random.split(key, 8), zeros)
print("one key for all:", " ".join(f"{value:.2f}" for value in np.asarray(same)))
print("a key for each: ", " ".join(f"{value:.2f}" for value in np.asarray(own)))

# %% [markdown]
# ### Exercise 1.6: init_ensemble
#
# An ensemble trains one model per device; its members must start apart.
# `init_ensemble(key, num_devices, sizes)` returns the parameters of a multi-layer
# perceptron for every device, stacked on a leading device axis: a list with `{"w": (D,
# n_in, n_out), "b": (D, n_out)}` for each pair of neighbours in `sizes`.
#
# - Weights are normal with mean zero and standard deviation `1 / sqrt(n_in)`, biases
#   zero, all f32.
# - Each device draws from its own key, each layer too.
# - The same `key` gives the same parameters, another `key` gives others.
# - Where the arrays lie does not matter: the first `pmap` will spread them.


# %% exercise="init_ensemble" minutes=15 difficulty=2
def init_ensemble(key, num_devices, sizes):
    """Draws one multi-layer perceptron per device.

    Args:
        key: a `jax.random.key`.
        num_devices: number of members D.
        sizes: widths of the layers, for example (10, 32, 1).

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
#   results for you.

# %% check="init_ensemble" points=3
sizes = (64, 32, 128)
seen = observe(init_ensemble, jax.random.key(3), 8, sizes)
zeros = [
    {"w": np.zeros((8, n, m), np.float32), "b": np.zeros((8, m), np.float32)}
    for n, m in zip(sizes[:-1], sizes[1:], strict=True)
]
expect_shapes(seen, zeros)
for layer, n_in in zip(seen.value, sizes, strict=False):
    w, b = layer["w"] * np.sqrt(n_in), layer["b"]
    distinct = len(np.unique(w[:, 0, 0]))
    likely = "the devices share a key: split it, one key per device"
    expect(seen, distinct == 8, f"{distinct} of 8 members are distinct.", likely=likely)
    expect(seen, not b.any(), "The biases are not zero.")
    rows = {"seen": f"{w.std():.2f} / sqrt({n_in})", "expected": f"1 / sqrt({n_in})"}
    expect(seen, 0.95 < w.std() < 1.05, "The standard deviation of w is off.", **rows)
again, other = (observe(init_ensemble, jax.random.key(k), 8, sizes) for k in (3, 4))
expect_close(again, seen.value, likely="the same key must give the same parameters")
expect_shapes(other, zeros)
changed = np.any(other.value[0]["w"] != seen.value[0]["w"])
expect(other, changed, "Another key gives the same parameters.")
### BEGIN HIDDEN TESTS
middle = seen.value[1]["w"] * np.sqrt(32)
expect(seen, abs(middle.mean()) < 0.05, "The weights' mean is not zero.")
expect(seen, np.abs(middle).max() > 2.5, "The weights are not normal.")
likeness = np.corrcoef(middle.reshape(8, -1)) - np.eye(8)
expect(seen, np.abs(likeness).max() < 0.2, "Members resemble each other.")
square = observe(init_ensemble, jax.random.key(7), 2, (40, 40, 40))
layer = {"w": np.zeros((2, 40, 40), np.float32), "b": np.zeros((2, 40), np.float32)}
expect_shapes(square, [layer, layer])
first, second = (layer["w"].ravel() for layer in square.value)
likely = "the layers share a key: split it per layer too"
alike = abs(np.corrcoef(first, second)[0, 1]) > 0.2
expect(square, not alike, "The layers resemble each other.", likely=likely)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Training without talking
#
# Now train: `y = 2x - 1` plus noise, 8 points on each device, the same start
# everywhere. Each device computes a gradient from **its own** points and takes a step.
# No device hears of another.


# %%
def mse(params, x, y):  # x: (B, F), y: (B,) -> ()
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


def local_step(params, x, y):
    grads = jax.grad(mse)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


rng = np.random.default_rng(0)
train_x = np.float32(rng.normal(size=(8, 8, 1)))
noise = 0.5 * rng.normal(size=(8, 8))
train_y = np.float32(2 * train_x[..., 0] - 1 + noise)
zeros = {"w": np.zeros((8, 1), np.float32), "b": np.zeros(8, np.float32)}

# %% [markdown]
# **Predict, then run.** Will each loss fall? Will the eight models agree at the end?

# %%
step, losses = jax.pmap(local_step), jax.pmap(mse)
params, slopes = zeros, []
for number in range(60):
    slopes.append(np.asarray(params["w"])[:, 0])
    params = step(params, train_x, train_y)
    if number % 10 == 9:
        jax.block_until_ready(params)  # few cores, eight devices: let them catch up
for when, state in (("before", zeros), ("after", params)):
    values = np.asarray(losses(state, train_x, train_y))
    print("loss", when, " ".join(f"{value:.1f}" for value in values))
draw_replicas(slopes, "slope w", "Eight replicas, no communication (true slope: 2)")

# %% [markdown]
# **Common mistake: replicas that drift.** Every loss fell, so the log looks healthy.
# But these are eight different models, each fitted to an eighth of the data. Code that
# saves `params["w"][0]` at the end throws seven eighths of the work away, and reports
# success.
#
# The cure is to average the gradients over the devices in every step. That takes a
# *collective*, the subject of lesson 2. First, measure the illness.

# %% [markdown]
# The check of the last exercise compares with this reference: the same steps, written
# out in NumPy with 64-bit floats.


# %%
def reference_run(params, x, y, lr, num_steps, average=False):
    w, b = np.float64(params["w"]), np.float64(params["b"])
    for _ in range(num_steps):
        error = np.einsum("dbf,df->db", x, w) + b[:, None] - y
        dw = 2 * np.einsum("db,dbf->df", error, x) / x.shape[1]
        db = 2 * error.mean(1)
        if average:  # what lesson 2 will do
            dw, db = (grad.mean(0, keepdims=True) for grad in (dw, db))
        w, b = w - lr * dw, b - lr * db
    return {"w": w, "b": b}


# %% [markdown]
# ### Exercise 1.7: local_sgd_steps
#
# A stretch exercise, two functions in one cell.
#
# `local_sgd_steps(params, x, y, lr, num_steps)` starts from `{"w": (D, F), "b": (D,)}`
# and takes `num_steps` steps of gradient descent on `mse` on each device, on that
# device's `x: (D, B, F)` and `y: (D, B)`, without communication. It returns the
# parameters, one row per device, and leaves its arguments as they were. JAX must be
# able to trace it: no `float(...)` and no NumPy on what the devices compute.
#
# `replica_spread(params)` returns one number for a tree of arrays `(D, ...)`: the
# largest absolute difference of any single entry from the replicas' mean of that entry,
# over all arrays.


# %% exercise="local_sgd_steps" minutes=20 difficulty=3
def local_sgd_steps(params, x, y, lr, num_steps):
    """Takes `num_steps` SGD steps on each device's own data.

    Args:
        params: {"w": (D, F), "b": (D,)}, a replica per device.
        x: (D, B, F).
        y: (D, B).
        lr: learning rate.
        num_steps: number of steps, 0 or more.

    Returns:
        Like params, one row of the leading axis on each of D devices.
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
    """Measures the largest distance of a replica from the replicas' mean: a float."""

    ### BEGIN SOLUTION
    def spread(leaf):
        return np.abs(leaf - np.mean(leaf, axis=0, keepdims=True)).max()

    return float(max(spread(leaf) for leaf in jax.tree.leaves(params)))
    ### END SOLUTION


# %% [markdown] hints="local_sgd_steps"
# - Write the whole run for one device, then `pmap` it. `lr` and `num_steps` may come
#   from the enclosing function.
# - `jax.lax.fori_loop(0, num_steps, step, params)` loops inside the compiled program;
#   its `step` takes `(i, params)`. A Python loop works too.
# - For the spread, `jax.tree.leaves(params)` lists the arrays; the mean is over axis 0.


# %% check="local_sgd_steps" points=3
data = np.float32(np.random.default_rng(4).normal(size=(8, 6, 4)))
x, y = data[..., :3], data[..., 3]
params = {"w": np.ones((8, 3), np.float32), "b": np.zeros(8, np.float32)}
expected = reference_run(params, x, y, 0.05, 20)
causes = {
    "gradients were averaged": reference_run(params, x, y, 0.05, 20, average=True),
    "the gradient was added": reference_run(params, x, y, -0.05, 20),
    "the step used 0.1 in place of lr": reference_run(params, x, y, 0.1, 20),
    "one step is missing": reference_run(params, x, y, 0.05, 19),
}
seen = observe(local_sgd_steps, params, x, y, 0.05, 20, traced=True)
expect_close(seen, expected, rtol=1e-4, atol=1e-5, mistakes=causes)
expect_unchanged(seen)
expect_devices(seen, 8, likely="all replicas were computed on one device")
expect_close(observe(local_sgd_steps, params, x, y, 0.05, 0), params)
likely = "the spread is the largest single difference, over all entries of all arrays"
expect_close(observe(replica_spread, params), 0.0, likely=likely)
tree = [np.float32([0, 0, 0, -4]), {"w": np.ones((4, 2, 2), np.float32)}]
expect_close(observe(replica_spread, tree), 3.0, likely=likely)
### BEGIN HIDDEN TESTS
spread = max(np.abs(leaf - leaf.mean(0)).max() for leaf in expected.values())
expect_close(observe(replica_spread, seen.value), spread, rtol=1e-3)
for num_devices, num_steps in ((4, 0), (2, 7)):
    x, y = x[:num_devices, :, :2], y[:num_devices]
    start_from = {"w": x[:, 0], "b": y[:, 0]}
    expected = reference_run(start_from, x, y, 0.1, num_steps)
    seen = observe(local_sgd_steps, start_from, x, y, 0.1, num_steps, traced=True)
    expect_close(seen, expected, rtol=1e-4, atol=1e-5)
    expect_devices(seen, num_devices)
### END HIDDEN TESTS

# %% [markdown]
# ## 8. Then and now
#
# You will read much code with `pmap`: it was JAX's first tool for several devices.
# Today it is a legacy name. Since JAX 0.8 it receives no new features, and underneath
# it is `jax.jit` around `jax.shard_map`, which you can write yourself. A mesh names the
# axes along which devices lie; `P("devices")` splits an array's leading axis over them
# (lesson 4 has more).

# %%
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("devices",), axis_types=(AxisType.Auto,))
over_rows = jax.shard_map(f, mesh=mesh, in_specs=P("devices"), out_specs=P("devices"))
x = np.linspace(0, 3, 16, dtype=np.float32).reshape(8, 2)
print("same as pmap:", np.allclose(jax.jit(over_rows)(x), jax.pmap(f)(x)))

# %% [markdown]
# Three things to know when you read or port such code:
#
# - In `pmap` a device's block **loses** the mapped axis, `f32[2]`. In `shard_map` it
#   **keeps** it with length one, `f32[1, 2]`.
# - `jax.device_put_replicated`, `jax.device_put_sharded` and `jax.tree_map` are gone
#   from newer versions; write `jax.device_put` with a sharding (lesson 4) and
#   `jax.tree.map`.
# - On several machines `pmap`'s leading axis counts the **local** devices only.
#
# What you learned stays: blocks, replicas, broadcast, one program on many devices.

# %% [markdown]
# ## Recap
#
# - The device count is fixed when JAX first touches a device; launch with the right
#   `XLA_FLAGS`.
# - `pmap` maps a function over the leading device axis; results stay where they arise.
# - `in_axes=None` broadcasts. Split keys yourself, or all devices draw the same.
# - `vmap` gives the same numbers on one device.
# - Without communication replicas drift, while every loss falls.

# %% [markdown]
# ## Three questions
#
# **1. `x` has shape `(8, 32, 10)` and `y = jax.pmap(lambda b: b.sum(axis=0))(x)`. What
# is `y.shape`?**
#
# <details><summary>(32, 10)</summary>
#
# This would sum over the devices. `pmap` removes the device axis before your function
# sees the block, so axis 0 is the batch.
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
# Only more rows than devices are an error.
#
# </details>
# <details><summary>Each row is shared by four devices</summary>
#
# `pmap` never splits a row; one row goes to one device. Lesson 4 shows what can split
# it.
#
# </details>

# %% [markdown]
# **3. Dropout runs inside `pmap` with `in_axes=None` for the key. What goes wrong?**
#
# <details><summary>Nothing: pmap makes keys differ</summary>
#
# `pmap` treats a key like any other array. Broadcast means identical.
#
# </details>
# <details><summary>All devices drop the same positions</summary>
#
# Right. They share a key, so they draw the same mask. Split the key first.
#
# </details>
# <details><summary>An error: keys cannot be broadcast</summary>
#
# They can, which is why nobody notices.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [JAX's guide to today's pmap](https://docs.jax.dev/en/latest/migrate_pmap.html):
#   what changes for existing code.
# - Older training code, for instance Flax's first ImageNet example, is built as in this
#   lesson: shard the batch, replicate the parameters, `pmap` the step.
# - `solutions/references/pmap_spmd.py` in this repository: the lesson's programs as one
#   script.
#
# **Next**: [lesson 2](02_collectives.ipynb), collectives, which let the devices talk.

# %% scorecard=true
