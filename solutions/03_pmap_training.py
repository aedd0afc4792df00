# %% [markdown]
# # Lesson 3. pmap training
#
# COLAB_BADGE
#
# Eight devices train one model: each on its share of the batch, all in step. Done
# right, they take the steps of one device with the whole batch, up to rounding. This
# lesson measures that, and shows what goes wrong without a word.
#
# **After this lesson you can**
#
# - train with `pmap`: replicate, shard, step, sync, unreplicate;
# - handle the last batch, large batches, Optax, BatchNorm and dropout;
# - tell a synchronised run from one that only looks healthy;
# - port a training step to `shard_map` without its silent eightfold gradient.
#
# **You need** lessons 1 and 2. **Time**: about 90 minutes.

# %% setup=true

# %% [markdown]
# ## 1. Five verbs
#
# 1. **replicate** the parameters: a copy, a *replica*, for each device;
# 2. **shard** the batch, in equal parts;
# 3. **step**: each device computes the gradient of its own shard;
# 4. **sync**: `pmean` averages the gradients, so that all replicas make the same update;
# 5. **unreplicate**: at the end, keep one replica.
#
# The mean of equal shards' gradients *is* the gradient of the whole batch's mean loss.
# Below, one step of a line fitted to `y = 2x - 1` plus noise, 128 points.

# %%
from typing import Any, NamedTuple


class Line(NamedTuple):
    weight: Any
    bias: Any


def line_step(line, x, y):  # on one device: f32[] each, x and y: f32[16]
    grads = jax.grad(lambda p: jnp.mean((p.weight * x + p.bias - y) ** 2))(line)
    grads = jax.lax.pmean(grads, "devices")  # sync
    return jax.tree.map(lambda p, g: p - 0.01 * g, line, grads)


rng = np.random.default_rng(0)
line_x = np.float32(rng.normal(size=(8, 16)))  # shard
line_y = np.float32(2 * line_x - 1 + 0.5 * rng.normal(size=(8, 16)))
zeros = Line(np.zeros(8, np.float32), np.zeros(8, np.float32))  # replicate
step = jax.pmap(line_step, axis_name="devices")
line = step(zeros, line_x, line_y)
shown = {"weight": zeros.weight, "x": line_x}  # bias and y lie likewise
draw_pmap("line_step", shown, {"weight": line.weight})

# %% [markdown]
# **Predict, then run.** After 1000 steps, how far apart are the eight replicas? And how
# far is replica 0 from the least-squares fit that NumPy finds on all 128 points?

# %%
for number in range(1, 1000):
    line = step(line, line_x, line_y)
    if number % 10 == 9:
        jax.block_until_ready(line)  # few cores, eight devices: let them catch up
replicas = np.asarray(line)  # f32[2, 8]
first = replicas[:, 0]  # unreplicate
fit = np.polyfit(np.float64(line_x).ravel(), np.float64(line_y).ravel(), 1)
for name, (w, b) in {"eight devices": first, "least squares": fit}.items():
    print(f"{name}: y = {w:.2f} x {b:+.2f}")
print("largest distance of two replicas:", np.ptp(replicas, axis=1).max())
print(f"distance of replica 0 from the fit: {np.abs(first - fit).max():.4f}")
draw_array(line.weight, "line.weight")

# %% [markdown]
# The replicas agree exactly: `pmean` gives every device the same bits, and equal updates
# of equal bits stay equal.

# %% [markdown]
# ### Exercise 3.1: replicate
#
# `replicate(tree, num_devices)` gives every leaf of a tree, array or Python number, a
# leading axis of `num_devices` equal rows, **one row on each** of the first
# `num_devices` devices. Dtypes stay; a Python float becomes f32, an int i32.
#
# - More replicas than devices: `ValueError`, and its text names both numbers (`pmap`
#   raises one).
#
# `unreplicate(tree)` removes the axis again and keeps the **first** replica.


# %% exercise="replicate" minutes=7 difficulty=1
def replicate(tree, num_devices):
    """Copies a tree to the first devices, one row of a new leading axis on each.

    Args:
        tree: pytree of arrays (...) and Python numbers.
        num_devices: number of replicas D.

    Returns:
        The same tree with arrays (D, ...) of the same dtypes; f32 and i32 for numbers.

    Raises:
        ValueError: there are fewer devices; the text names both numbers.
    """
    ### BEGIN SOLUTION
    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(num_devices), tree)
    ### END SOLUTION


def unreplicate(tree):
    """Keeps the first replica of a tree of arrays (D, ...): arrays (...)."""
    ### BEGIN SOLUTION
    return jax.tree.map(lambda leaf: leaf[0], tree)
    ### END SOLUTION


# %% [markdown] hints="replicate"
# - `pmap` can do it: what goes in whole (`in_axes=None`) and comes out is stacked, one
#   copy per device.
# - It needs one mapped argument that says how many: `np.arange(num_devices)`.
# - `jax.tree.map(lambda leaf: leaf[0], tree)` reaches every leaf of a tree.

# %% check="replicate" points=1
w = np.arange(6, dtype=np.float32).reshape(3, 2)
tree = {"w": w, "more": [np.int8(7), (np.uint8([1, 2]), np.float16(0.5))]}
given, wanted = {"lr": 0.25, "n": 3}, {"lr": np.float32(0.25), "n": np.int32(3)}
likely = "pmap gives num_devices devices a row each; jnp.stack and P() do not"
for num_devices in (8, 4):
    seen = observe(replicate, tree | given, num_devices, traced=True)
    expect_devices(seen, num_devices, likely=likely)
    rows = [tree | wanted] * num_devices
    expect_close(seen, jax.tree.map(lambda *leaves: np.stack(leaves), *rows))
    expect_unchanged(seen)
for many in (9, 12):
    expect_error(observe(replicate, tree, many), "ValueError", mentions=[many, 8])
rows = np.arange(24, dtype=np.float32).reshape(8, 3)
stack = {"a": rows, "b": [np.arange(8, dtype=np.float32)]}
causes = {
    "the replicas were averaged": {"a": rows.mean(0), "b": [np.float32(3.5)]},
    "that is the last replica": {"a": rows[-1], "b": [np.float32(7)]},
}
first = {"a": rows[0], "b": [np.float32(0)]}
expect_close(observe(unreplicate, stack, traced=True), first, mistakes=causes)
### BEGIN HIDDEN TESTS
for num_devices in (1, 2, 4):
    tree = [np.full((2, 3), num_devices, np.int8), {"deep": {"er": np.float32(3)}}]
    stack = jax.tree.map(lambda leaf, n=num_devices: np.stack([leaf] * n), tree)
    seen = observe(replicate, tree, num_devices, traced=True)
    expect_close(seen, stack)
    expect_devices(seen, num_devices)
    expect_close(observe(unreplicate, stack, traced=True), tree)
expect_error(observe(replicate, 1.0, 11), "ValueError", mentions=[11, 8])
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Step and sync
#
# Now a two-layer perceptron learns a function of ten numbers.


# %%
def init_mlp(seed, hidden=32):  # widths 10, hidden, 1
    rng = np.random.default_rng(seed)
    w1, w2 = rng.normal(size=(10, hidden)), rng.normal(size=(hidden, 1))
    params = {"w1": w1 / np.sqrt(10), "w2": w2 / np.sqrt(hidden)}
    params |= {"b1": np.zeros(hidden), "b2": np.zeros(1)}
    return jax.tree.map(np.float32, params)


def mlp_data(seed, *shape):  # x: (*shape, 10), y: shape
    rng = np.random.default_rng(seed)
    x, noise = rng.normal(size=(*shape, 10)), rng.normal(size=shape)
    y = np.sin(x[..., 0]) + 0.5 * x[..., 1] * x[..., 2] + 0.1 * noise
    return np.float32(x), np.float32(y)


def mlp(params, x):  # f32[B, 10] -> f32[B]
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return (hidden @ params["w2"])[:, 0] + params["b2"]


def mlp_loss(params, x, y):  # mean over this device's rows: f32[]
    return jnp.mean((mlp(params, x) - y) ** 2)


def copies(tree, num_devices):  # stacked on the host
    return jax.tree.map(lambda leaf: np.stack([leaf] * num_devices), tree)


# %% [markdown]
# What is right? One device that takes the whole batch: `reference_sgd`, in NumPy with
# 64-bit floats.
#
# **Predict, then run.** Three runs of 50 steps on eight devices: gradients averaged,
# added up, and left alone. Which log looks best?


# %%
def train(sync):
    def step(params, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        params = jax.tree.map(lambda p, g: p - 0.01 * g, params, sync(grads, "devices"))
        return params, jax.lax.pmean(loss, "devices")

    parallel = jax.pmap(step, axis_name="devices")
    params = jax.pmap(lambda _: init_mlp(0), "devices")(np.arange(8))  # replicate
    record = np.zeros((2, 50))  # the replicas' spread, and the loss
    for n in range(50):
        params, loss = parallel(params, *mlp_data(1, 8, 64))
        record[:, n] = np.ptp(np.asarray(params["w1"]), axis=0).max(), loss[0]
    return record


runs = {"one device": reference_sgd(init_mlp(0), *mlp_data(1, 8, 64), 0.01, 50)}
syncs = {"pmean": jax.lax.pmean, "psum": jax.lax.psum, "no sync": lambda g, _: g}
runs |= {name: train(sync) for name, sync in syncs.items()}
print("step ", *(f"{name:>10}" for name in runs))
for n in (0, 10, 25, 49):
    print(f"{n:4} ", *(f"{losses[n]:10.3f}" for _, losses in runs.values()))
spreads = {name: runs[name][0] for name in ("no sync", "pmean")}
draw_losses(spreads, "largest distance of two w1", "Replica spread", log=False)

# %% [markdown]
# **Common mistake: trusting the log.** Both wrong runs log *lower* losses. Without sync
# each replica fits its own eighth of the data. With `psum` the gradient is eight times
# too large: a learning rate that you did not choose.
#
# Only `pmean` follows one device, up to rounding. So the checks never ask whether the
# loss falls; they compare with the reference.

# %% [markdown]
# ### Exercise 3.2: train_step
#
# `train_step(params, x, y, lr)` takes one step of SGD (`p - lr * gradient`) on `D`
# devices. `params` are stacked `(D, ...)`, `x: (D, B, 10)`, `y: (D, B)`; `lr` is one
# number. It returns `(params, loss)`: the updated replicas and the loss **before** the
# step, `(D,)`, averaged too.
#
# - Each device computes its own shard. Replicas stay identical, bit for bit, and equal
#   one device on the whole batch.
# - A device sends each gradient and the loss once, and nothing else.
# - Calls with the same shapes share **one** compiled program, whatever `lr`: call `pmap`
#   on a function defined once, at the top level, such as `device_step`.
# - Integer parameters: JAX raises `TypeError`.


# %% exercise="train_step" minutes=10 difficulty=2
def device_step(params, x, y, lr):
    """Takes the step on one device, inside the axis "devices": x is (B, 10)."""
    ### BEGIN SOLUTION
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
    ### END SOLUTION


def train_step(params, x, y, lr):
    """Takes one synchronised SGD step on D devices.

    Args:
        params: tree of f32 (D, ...), a replica per device.
        x: f32 (D, B, 10).
        y: f32 (D, B).
        lr: learning rate, one number.

    Returns:
        (params, loss): the updated replicas and the mean loss before, f32 (D,).

    Raises:
        TypeError: the parameters are integers.
    """
    ### BEGIN SOLUTION
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
    ### END SOLUTION


# %% [markdown] hints="train_step"
# - `jax.value_and_grad(mlp_loss)(params, x, y)` gives one device's loss and gradients;
#   `jax.lax.pmean` takes a whole tree.
# - Average before you update. The axis name in `pmean` and in `pmap` must agree.
# - `in_axes=(0, 0, 0, None)` sends `lr` whole. A function defined *inside* `train_step`
#   is another one in each call, so `pmap` compiles again.


# %% check="train_step" points=3
params, (x, y) = init_mlp(1), mlp_data(2, 8, 16)
stacked = copies(params, 8)
(after, [loss]), (far, _) = (reference_sgd(params, x, y, lr, 1) for lr in (0.1, 0.8))
seen = observe(train_step, stacked, x, y, 0.1, traced=True)
expect_shapes(seen, (stacked, np.full(8, loss)))
likely = "pmean gradients and loss (in pmap, pmean in the loss combines no gradients)"
expect_replicas(seen, likely=f"nothing combined them: {likely}")
causes = {
    "the gradients were added up: 8 times too large": copies((far, loss), 8),
    "gradients and loss were added up, not averaged": copies((far, 8 * loss), 8),
}
expect_close(seen, copies((after, loss), 8), rtol=1e-4, atol=1e-5, mistakes=causes)
expect_devices(seen, 8, likely="all replicas were computed on one device")
expect_arrays(seen, never=(128, 32), likely="a device computed the whole batch")
expect_one_sync(seen, params, 8)
expect_kept_program(observe(train_step, stacked, x, -y, 0.1))
again = observe(train_step, stacked, x, -y, np.random.rand())  # new in each run
likely = "lr is static, or closed over: make it an argument with in_axes=None"
expect(again, not again.num_compiles, "Another lr compiled anew.", likely=likely)
### BEGIN HIDDEN TESTS
whole = jax.tree.map(np.int32, stacked)
expect_error(observe(train_step, whole, x, y, 0.1), "TypeError")
for num_devices, rows, num_steps, how in ((2, 7, 20, "compiled"), (4, 3, 2, "traced")):
    params, (x, y) = init_mlp(7, hidden=6), mlp_data(8, num_devices, rows)
    after, losses = reference_sgd(params, x, y, 0.2, num_steps)
    stacked = copies(params, num_devices)
    seen = observe(train_step, stacked, x, y, 0.2, **{how: True})
    if how == "traced":  # JAX 0.7 compiles a pmap inside of jit with more collectives
        expect_one_sync(seen, params, num_devices)
    for shape in ((14, 6), (2, 7, 6)):
        expect_arrays(seen, never=shape, likely="a device computed the whole batch")
    for _ in range(num_steps - 1):
        expect_shapes(seen, (stacked, np.full(num_devices, 0.0)))
        seen = observe(train_step, seen.value[0], x, y, 0.2)
    expected = copies((after, losses[-1]), num_devices)
    expect_close(seen, expected, rtol=1e-4, atol=1e-5)
    expect_replicas(seen)
    expect_devices(seen, num_devices)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The batch that does not divide
#
# Training sets rarely divide: 1,797 images over 8 devices leave 5. In training you may
# drop a few rows and shuffle; in evaluation every row counts. So pad the batch, and
# carry a *mask* that says which rows are true.
#
# **Common mistake: counting the padding.** Below, 13 rows, padded with 3 rows of zeros.


# %%
def pad_rows(a, num_rows):  # appends rows of zeros
    return np.pad(a, [(0, num_rows - len(a)), *[(0, 0)] * (a.ndim - 1)])


params = init_mlp(0) | {"b2": np.float32([0.5])}  # now a row of zeros has an error
x, y = mlp_data(3, 13)
truth, _ = reference_perceptron(params, x, y)
x, y = pad_rows(x, 16).reshape(8, 2, 10), pad_rows(y, 16).reshape(8, 2)
local = jax.pmap(mlp_loss, in_axes=(None, 0, 0))(params, x, y)
print(f"mean over 13 true rows:  {truth:.4f}")
print(f"mean over 8 devices:     {np.mean(local):.4f}")
print("devices without a true row:", np.sum(np.arange(0, 16, 2) >= 13))


def summed(params, x, y, mask):  # for the check: all shares and their gradients
    share, grads = jax.value_and_grad(weighted_loss)(params, x, y, mask, "devices")
    return jax.lax.psum((share, grads), "devices")


def scaled(factor, tree):  # for the check
    return jax.tree.map(lambda leaf: factor * leaf, tree)


# %% [markdown]
# ### Exercise 3.3: pad_and_shard
#
# `pad_and_shard(batch, num_devices)` takes a tree of arrays `(B, ...)`, appends as few
# rows of zeros as it takes to divide, and returns `(batch, mask)`: arrays `(D, k, ...)`,
# order and dtypes kept, and `mask: bool (D, k)`, true for true rows. An empty batch is
# a `ValueError`.
#
# `weighted_loss(params, x, y, mask, axis_name)` runs on each device, inside the axis:
# `x: (k, 10)`, `y: (k,)`, `mask: (k,)`. It returns the device's **share** of the loss:
# the shares of all devices *add up* (`psum`) to the mean of `(mlp(params, x) - y) ** 2`
# over the true rows of all devices, whatever finite values masked rows hold.


# %% exercise="pad_and_shard" minutes=12 difficulty=2
def pad_and_shard(batch, num_devices):
    """Pads a batch until it divides, and splits it over the devices.

    Args:
        batch: pytree of arrays (B, ...), B at least 1.
        num_devices: number of blocks D.

    Returns:
        (batch, mask): arrays (D, k, ...) with zeros in the padding, bool (D, k).

    Raises:
        ValueError: the batch is empty.
    """
    ### BEGIN SOLUTION
    num_rows = len(jax.tree.leaves(batch)[0])
    if num_rows == 0:
        raise ValueError("the batch has no rows")
    per_device = -(-num_rows // num_devices)

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows, bool))
    ### END SOLUTION


def weighted_loss(params, x, y, mask, axis_name):
    """Returns a device's share, f32 (): all shares add up to the true rows' mean."""
    ### BEGIN SOLUTION
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)
    ### END SOLUTION


# %% [markdown] hints="pad_and_shard"
# - `-(-B // D)` is `B / D`, rounded up. `pad_rows` above appends rows to one array.
# - The mask is a batch like any other: pad and split `np.ones(B, bool)`.
# - A share: the sum over this device's true rows, divided by the number of true rows on
#   *all* devices, which is `jax.lax.psum(mask.sum(), axis_name)`.

# %% check="pad_and_shard" points=3
params, (x, y) = init_mlp(1), mlp_data(4, 16)
x[3], y[3] = 0, 0  # a true row as well
for num_rows in (16, 13):
    mask = np.arange(16).reshape(8, 2) < num_rows
    true = x[:num_rows], y[:num_rows]
    padded = tuple(pad_rows(a, 16).reshape(8, 2, *a.shape[1:]) for a in true)
    causes = {"a true row of zeros was taken for padding": (padded, padded[1] != 0)}
    expect_close(observe(pad_and_shard, true, 8), (padded, mask), mistakes=causes)
expect_error(observe(pad_and_shard, (x[:0], y[:0]), 8), "ValueError")
truth = reference_perceptron(params, *true)
padded[0][~mask], padded[1][~mask] = 7, 7  # masked rows may hold anything finite
every = reference_perceptron(params, *padded)
causes = {
    "masked rows were counted in the sum": scaled(16 / 13, every),
    "masked rows were counted like true ones": every,
    "each share is the whole mean; they add up to 8 times as much": scaled(8, truth),
}
close = {"rtol": 1e-4, "atol": 1e-5, "mistakes": copies(causes, 8)}
seen = observe(summed, copies(params, 8), *padded, mask, axis="devices", traced=True)
expect_close(seen, copies(truth, 8), **close, likely="divide by all true rows, once")
### BEGIN HIDDEN TESTS
for num_devices, num_rows in ((8, 1), (4, 9), (2, 4)):
    size = -(-num_rows // num_devices)
    x, y = mlp_data(num_rows, num_devices * size)
    x[num_rows:], y[num_rows:] = 3, -70  # what masked rows hold does not matter
    truth = reference_perceptron(params, x[:num_rows], y[:num_rows])
    mask = np.arange(num_devices * size) < num_rows
    blocks = [a.reshape(num_devices, size, *a.shape[1:]) for a in (x, y, mask)]
    inputs = (copies(params, num_devices), *blocks)
    seen = observe(summed, *inputs, axis="devices", traced=True)
    expect_close(seen, copies(truth, num_devices), rtol=1e-4, atol=1e-5)
    ones = pad_rows(np.float32(x[:num_rows]), len(x)).reshape(blocks[0].shape)
    numbers = np.arange(num_rows, dtype=np.int32)
    labels = pad_rows(numbers, len(x)).reshape(num_devices, size)
    seen = observe(pad_and_shard, (x[:num_rows], [numbers]), num_devices)
    expect_close(seen, ((ones, [labels]), blocks[2]))
inputs = (copies(params, 4), *(a[:4] for a in padded))
mask = np.bool_([[1, 0], [0, 0], [0, 0], [0, 1]])
seen = observe(weighted_loss, *inputs, mask, "devices", axis="devices", traced=True)
shares = [
    reference_perceptron(params, padded[0][d, k], padded[1][d, k])[0] / 2
    for d, k in ((0, 0), (3, 1))
]
expect_close(seen, np.array([shares[0], 0, 0, shares[1]]), rtol=1e-4, atol=1e-5)
pixel = np.uint8([[200, 3]])
seen = observe(pad_and_shard, [pixel], 8)
expect_close(seen, ([pad_rows(pixel, 8).reshape(8, 1, 2)], np.arange(8)[:, None] < 1))
expect_unchanged(seen)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. A large batch in small pieces
#
# A batch may be too large for a device's memory: its *activations*, kept for the
# gradient, grow with it. So take it in microbatches, one after the other, add up the
# gradients, and step once. This is **gradient accumulation**.
#
# **Predict, then run.** Four rounds of 100 numbers: how many bytes does one sync
# instead of four save?


# %%
def add_rounds(rows, sync_in_loop):  # rows: f32[4, 100], a row per round
    def add(total, row):
        return total + (jax.lax.pmean(row, "devices") if sync_in_loop else row), None

    total, _ = jax.lax.scan(add, jnp.zeros(100), rows)  # a loop in the program
    return total if sync_in_loop else jax.lax.pmean(total, "devices")


mapped = jax.pmap(add_rounds, "devices", static_broadcasted_argnums=1)
for sync_in_loop in (True, False):
    for sent in collectives(mapped, np.ones((8, 4, 100), np.float32), sync_in_loop):
        print(f"{sent.bytes_moved:,.0f} bytes from each device: {sent}")

# %% [markdown]
# ### Exercise 3.4: accumulated_step
#
# `accumulated_step(params, x, y, lr, axis_name)` runs on each device, inside the axis.
# `params` have no device axis, `x: (M, B, 10)` and `y: (M, B)` hold `M` microbatches. It
# returns `(params, loss)` as one SGD step on all rows of all devices would; the loss is
# the mean before the step.
#
# - **One** sync, not inside a loop: each gradient is sent once per step.
# - One microbatch at a time: the program builds no hidden layer of more than `B` rows.


# %% exercise="accumulated_step" minutes=10 difficulty=2
def accumulated_step(params, x, y, lr, axis_name):
    """Takes one SGD step on M microbatches per device, with one sync.

    Args:
        params: tree of f32 (...), this device's replica.
        x: f32 (M, B, 10), this device's microbatches.
        y: f32 (M, B).
        lr: learning rate.
        axis_name: the axis of devices.

    Returns:
        (params, loss): equal on all devices.
    """

    ### BEGIN SOLUTION
    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(params, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zeros, (x, y))
    mean = jax.tree.map(lambda leaf: leaf / len(x), total)
    loss, grads = jax.lax.pmean(mean, axis_name)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
    ### END SOLUTION


# %% [markdown] hints="accumulated_step"
# - `jax.lax.scan(add, start, (x, y))` calls `add(total, (x[m], y[m]))` for each `m`;
#   `add` returns `(new_total, None)`.
# - Start from zeros: a loss, and `jax.tree.map(jnp.zeros_like, params)`.
# - After the scan: divide by `M`, then one `pmean`, then the update.

# %% check="accumulated_step" points=2
params, (x, y) = init_mlp(1), mlp_data(5, 8, 4, 16)
(after, [loss]), small, found = reference_sgd(params, x, y, 0.1, 1), params, []
for m in range(4):
    small, [first] = reference_sgd(small, x[:, m], y[:, m], 0.1, 1)
    found.append(first)
causes = {"each microbatch took a step of its own": (small, np.mean(found))}
for who, many in {"microbatches": 4, "devices": 8}.items():
    far = reference_sgd(params, x, y, many * 0.1, 1)[0]
    causes[f"the gradients of the {who} were added up, not averaged"] = far, loss
    causes[f"gradients and losses of the {who} were added up"] = far, many * loss
inputs = (copies(params, 8), x, y, 0.1, "devices")
seen = observe(accumulated_step, *inputs, axis="devices", traced=True)
expect_shapes(seen, copies((after, loss), 8))
expect_replicas(seen, likely="nothing combined the devices' gradients or losses")
close = {"rtol": 1e-4, "atol": 1e-5, "mistakes": copies(causes, 8)}
expect_close(seen, copies((after, loss), 8), **close)
expect_collectives(seen, in_loop=False, likely="sync once, after the loop")
expect_one_sync(seen, params, 8)
for shape in ((64, 32), (4, 16, 32), (32, 32), (2, 16, 32)):
    expect_arrays(seen, never=shape, likely="several microbatches were taken at once")
### BEGIN HIDDEN TESTS
for num_devices, pieces, rows in ((2, 3, 5), (4, 1, 7)):
    params, (x, y) = init_mlp(9, hidden=11), mlp_data(6, num_devices, pieces, rows)
    after, [loss] = reference_sgd(params, x, y, 0.3, 1)
    inputs = (copies(params, num_devices), x, y, 0.3, "data")
    seen = observe(accumulated_step, *inputs, axis="data", traced=True)
    expect_close(seen, copies((after, loss), num_devices), rtol=1e-4, atol=1e-5)
    expect_replicas(seen)
    expect_collectives(seen, in_loop=False)
    expect_one_sync(seen, params, num_devices)
    if pieces > 1:
        expect_arrays(seen, never=(pieces * rows, 11))
        expect_arrays(seen, never=(pieces, rows, 11))
### END HIDDEN TESTS

# %% [markdown]
# ## 5. An optimizer inside the step
#
# [Optax](https://optax.readthedocs.io) optimizers are two functions: `init(params)`
# makes the state, `update(grads, state, params)` returns what to add to the parameters,
# and the next state. Replicas of the state stay equal if each sees the **same** gradient.
#
# **Common mistake: clipping before the sync.** Clipping scales a gradient down to a
# largest norm. It is not linear, so the order matters. Here one device has a hard shard:

# %%
import dataclasses
import functools

import optax


def clip(grads, max_norm):  # grads: [..., N], one gradient per row
    norm = np.linalg.norm(grads, axis=-1, keepdims=True)
    return grads * np.minimum(1, max_norm / norm)


grads = np.array([[0.2, 0.0]] * 7 + [[0.0, 24.0]])
print("average, then clip:", clip(grads.mean(axis=0), 1).round(2))
print("clip, then average:", clip(grads, 1).mean(axis=0).round(2))


def optimizer_run(params, x, y, num_steps, *settings):  # on each device, for the check
    optimizer = make_optimizer(*settings)

    def step(carry, _):
        params, state, loss = optimizer_step(*carry, x, y, optimizer, "devices")
        return (params, state), loss

    carry = (params, optimizer.init(params))
    (params, _), losses = jax.lax.scan(step, carry, length=num_steps)
    return params, losses


# %%
def reference_run(params, x, y, num_steps, settings, clip_first=False):
    peak, warmup, last, max_norm, weight_decay = settings

    def grads(params):
        found = [reference_perceptron(params, *rows) for rows in zip(x, y, strict=True)]
        if clip_first:
            found = [(loss, reference_clip(g, max_norm)) for loss, g in found]
        loss, mean = jax.tree.map(lambda *parts: np.mean(parts, axis=0), *found)
        return loss, mean if clip_first else reference_clip(mean, max_norm)

    steps = np.arange(num_steps)
    wave = (1 + np.cos(np.pi * np.clip((steps - warmup) / (last - warmup), 0, 1))) / 2
    rates = peak * np.where(steps < warmup, steps / max(warmup, 1), wave)
    after, _, _, losses = reference_adamw(params, rates, grads, weight_decay)
    return after, np.array(losses)


# %% [markdown]
# ### Exercise 3.5: optimizer_step
#
# `make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay)` returns an
# Optax optimizer:
#
# - clip to `max_norm` by **global norm**, that of all gradients as one vector;
# - then **AdamW**: Adam that also shrinks the parameters, by `weight_decay`; else Optax's
#   defaults;
# - the learning rate rises linearly from 0, at step 0, to `peak_lr` at step
#   `warmup_steps`, then falls along a cosine to 0 at step `num_steps`.
#
# `optimizer_step(params, opt_state, x, y, optimizer, axis_name)` runs on each device,
# inside the axis, `x: (B, 10)`, `y: (B,)`. It returns `(params, opt_state, loss)`, the
# same on all devices: what one device would compute from the whole batch. Clipping sees
# the *averaged* gradient.


# %% exercise="optimizer_step" minutes=13 difficulty=2
def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    """Makes AdamW after global-norm clipping, on a warm-up cosine schedule."""
    ### BEGIN SOLUTION
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)
    ### END SOLUTION


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    """Takes one synchronised step with an Optax optimizer, on one device.

    Args:
        params: tree of f32 (...), this device's replica.
        opt_state: the optimizer's state, this device's replica.
        x: f32 (B, 10), this device's rows.
        y: f32 (B,).
        optimizer: what `make_optimizer` returned.
        axis_name: the axis of devices.

    Returns:
        (params, opt_state, loss): equal on all devices.
    """
    ### BEGIN SOLUTION
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss
    ### END SOLUTION


# %% [markdown] hints="optimizer_step"
# - `optax.chain(first, second)` applies one after the other;
#   `optax.clip_by_global_norm` comes first.
# - `optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)` goes where
#   `optax.adamw` takes a learning rate.
# - `pmean` the gradients, then `optimizer.update(grads, opt_state, params)`, then
#   `optax.apply_updates(params, updates)`.

# %% check="optimizer_step" points=3
params, (x, y), settings = init_mlp(1), mlp_data(6, 8, 16), (0.05, 4, 12, 2.0, 0.1)
y[0] *= 4  # a hard shard
run = functools.partial(reference_run, params, x, y, 12)
causes = {"clipping saw each device's own gradient": run(settings, clip_first=True)}
for cause, other in {
    "the gradients were added up": (0.05, 4, 12, 2.0 / 8, 0.1),
    "nothing was clipped (by global norm, before AdamW)": (0.05, 4, 12, np.inf, 0.1),
    "the learning rate is constant": (0.05, 0, np.inf, 2.0, 0.1),
    "the cosine ends early: Optax counts the warm-up in": (0.05, 4, 8, 2.0, 0.1),
    "there is no weight decay": (0.05, 4, 12, 2.0, 0),
}.items():
    causes[cause] = run(other)
far, losses = causes["the gradients were added up"]
causes["gradients and losses were added up"] = far, 8 * losses
inputs = (copies(params, 8), x, y, 12, *settings)
seen = observe(optimizer_run, *inputs, axis="devices", traced=True)
expect_replicas(seen, likely="the devices' gradients, or losses, were not averaged")
close = {"rtol": 1e-3, "atol": 1e-4, "mistakes": copies(causes, 8)}
expect_close(seen, copies(run(settings), 8), **close)
expect_one_sync(seen, params, 8, 12)
### BEGIN HIDDEN TESTS
for num_devices, settings in ((2, (0.1, 2, 9, 1.0, 0.0)), (4, (0.05, 1, 6, 3.0, 0.3))):
    params, (x, y) = init_mlp(3, hidden=7), mlp_data(8, num_devices, 6)
    y[-1] *= 6
    last = settings[2]
    expected = copies(reference_run(params, x, y, last, settings), num_devices)
    inputs = (copies(params, num_devices), x, y, last, *settings)
    seen = observe(optimizer_run, *inputs, axis="devices", traced=True)
    expect_replicas(seen)
    expect_close(seen, expected, rtol=1e-3, atol=1e-4)
    expect_one_sync(seen, params, num_devices, last)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. BatchNorm and dropout
#
# Now a small convolutional network for 1,797 handwritten digits of 8 x 8 pixels. Two of
# its parts ask *which rows are the batch?* and *which device am I?*
#
# - **BatchNorm** normalises with the batch's mean and variance, its *moments*, here
#   through a function `moments(h)` that you choose.
# - **Dropout** drops random units; from one key, the same ones on every device.


# %%
def cnn(params, x, keep, moments):  # f32[B, 8, 8, 1] -> f32[B, 10], moments per layer
    used = []
    for layer in params["conv"]:
        conv = jax.lax.conv_general_dilated
        axes = ("NHWC", "HWIO", "NHWC")
        h = conv(x, layer["w"], (1, 1), "SAME", dimension_numbers=axes)
        mean, var = moments(h)  # of each channel
        used.append({"mean": mean, "var": var})
        h = (h - mean) * jax.lax.rsqrt(var + 1e-5) * layer["scale"] + layer["shift"]
        h, size = jax.nn.relu(h), (1, 2, 2, 1)  # the largest of 2 x 2 pixels
        x = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, size, size, "VALID")
    h = jax.nn.relu(x.reshape(len(x), -1) @ params["dense"])
    # Dropout doubles what it keeps; keep=0.5 does nothing (0.5 * 2 = 1).
    return (h * keep * 2) @ params["out"], used


def cross_entropy(logits, labels):
    chosen = jax.nn.one_hot(labels, 10)
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * chosen, axis=-1))


# %%
from importlib.metadata import distribution


def init_cnn(seed, channels=(8, 16), hidden=64):
    rng, conv, c_in = np.random.default_rng(seed), [], 1
    for c in channels:
        w = rng.normal(size=(3, 3, c_in, c)) * np.sqrt(2 / (9 * c_in))
        conv.append({"w": w, "scale": np.ones(c), "shift": np.zeros(c)})
        c_in = c
    size = c_in * (8 // 2 ** len(channels)) ** 2
    dense = rng.normal(size=(size, hidden)) * np.sqrt(2 / size)
    out = rng.normal(size=(hidden, 10)) / np.sqrt(hidden)
    stats = [{"mean": np.zeros(c), "var": np.ones(c)} for c in channels]
    state = {"params": {"conv": conv, "dense": dense, "out": out}, "stats": stats}
    return jax.tree.map(np.float32, state)


def load_images():  # shuffled: f32[1797, 8, 8, 1] from 0 to 1, i32[1797]
    digits = "sklearn/datasets/data/digits.csv.gz"  # its import would take a second
    rows = np.loadtxt(distribution("scikit-learn").locate_file(digits), delimiter=",")
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    return np.float32(rows[:, :-1] / 16).reshape(-1, 8, 8, 1), np.int32(rows[:, -1])


# %% [markdown]
# For predictions, BatchNorm keeps *running* moments: `0.9 * old + 0.1 * new` after each
# batch.
#
# **Common mistake: moments of one's own shard.** Here the parameters are left as they
# are. **Predict, then run.** Do the running moments agree?


# %%
def batch_moments(h):  # f32[B, H, W, C] -> mean and variance of each channel
    return h.mean((0, 1, 2)), h.var((0, 1, 2))


def moving_average(old, new):
    return jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, old, new)


@jax.pmap
def local_stats(state, x):  # x: f32[4, 8, 8, 1]
    _, used = cnn(state["params"], x, 0.5, batch_moments)
    return state | {"stats": moving_average(state["stats"], used)}


images, labels = load_images()
state, history = copies(init_cnn(0), 8), []
for number in range(40):
    state = local_stats(state, images[32 * number :][:32].reshape(8, 4, 8, 8, 1))
    history.append(np.asarray(state["stats"][0]["mean"])[:, 0])
percent = 100 * (history / np.mean(history, axis=1, keepdims=True) - 1)
three = {f"device {d}": percent[:, d] for d in (0, 3, 6)}
title = "Running mean of channel 0 on three devices, not synced"
draw_losses(three, "% off the average of eight", title, log=False)

# %% [markdown]
# Which of the eight would you save? And each shard of four images was normalised in its
# own way.

# %% [markdown]
# ### Exercise 3.6: cnn_step
#
# Two functions; both run on each device, inside the axis.
#
# `dropout_mask(key, step, shape, axis_name)`: every device gets the same `key`. Fold in
# `step`, which may be traced, **then** the device's index, and draw
# `jax.random.bernoulli(key, 0.5, shape)`.
#
# `cnn_step(state, key, step, x, y, lr, axis_name)` takes one SGD step on
# `cross_entropy`. `state` is `{"params": ..., "stats": [...]}` as `init_cnn` makes it;
# `x: (B, 8, 8, 1)`, `y: i32 (B,)`. It returns `(state, loss)`, equal on all devices.
#
# - `keep` is the mask of shape `(B, H)`, where `params["out"]` is `(H, 10)`.
# - Moments are those of the rows of **all** devices, as `batch_moments` computes them on
#   one; the new `stats` are `moving_average(old stats, moments)`.


# %% exercise="cnn_step" minutes=18 difficulty=3
def dropout_mask(key, step, shape, axis_name):
    """Draws this device's mask: bool of `shape`, each entry true with probability 1/2."""
    ### BEGIN SOLUTION
    key = jax.random.fold_in(
        jax.random.fold_in(key, step), jax.lax.axis_index(axis_name)
    )
    return jax.random.bernoulli(key, 0.5, shape)
    ### END SOLUTION


def cnn_step(state, key, step, x, y, lr, axis_name):
    """Takes one step with synchronised BatchNorm and this device's dropout mask.

    Args:
        state: {"params": ..., "stats": ...}, this device's replica.
        key: a `jax.random.key`, the same on all devices.
        step: number of the step, possibly traced.
        x: f32 (B, 8, 8, 1), this device's images.
        y: i32 (B,), their labels.
        lr: learning rate.
        axis_name: the axis of devices.

    Returns:
        (state, loss): equal on all devices.
    """

    ### BEGIN SOLUTION
    def moments(h):
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss
    ### END SOLUTION


# %% [markdown] hints="cnn_step"
# - `jax.random.fold_in(key, number)` makes a new key of both; the device's number is
#   `jax.lax.axis_index(axis_name)`.
# - The variance of all rows is not the mean of the devices' variances: first agree on
#   the mean, then `pmean` the mean of `(h - mean) ** 2`.
# - `has_aux=True` lets `loss_of` return `(loss, used)`; `jax.value_and_grad` then gives
#   `((loss, used), grads)`. Only `moments` and one `pmean` at the end differ from a step
#   on one device.


# %% helpers="cnn_step"
@jax.jit
def reference_cnn_step(state, keep, x, y, lr):  # one device, the rows of all
    x, y, keep = (a.reshape(-1, *a.shape[2:]) for a in (x, y, keep))

    def loss_of(params):
        logits, used = cnn(params, x, keep, batch_moments)
        return cross_entropy(logits, y), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


def draw_masks(keys, shape):
    return np.stack([jax.random.bernoulli(key, 0.5, shape) for key in keys])


def expect_moments(seen, state, x, right):
    expect_shapes(seen, copies(right, len(x)))
    local = local_stats(copies(state, len(x)), x)["stats"]
    means = {"stats": jax.tree.map(lambda leaf: np.mean(leaf, axis=0), local)}
    cause = "each variance is the mean of the devices' own: first agree on the mean"
    close = {"rtol": 1e-3, "atol": 1e-4, "mistakes": {cause: copies(means, len(x))}}
    stats = dataclasses.replace(seen, value={"stats": seen.value[0]["stats"]})
    expect_close(stats, copies({"stats": right[0]["stats"]}, len(x)), **close)


# %% check="cnn_step" points=4
key, fold, shape = jax.random.key(5), jax.random.fold_in, (4, 16)
masks = draw_masks([fold(fold(key, 3), d) for d in range(8)], shape)
causes = {
    "every device drops the same units: fold the device's index in": [fold(key, 3)] * 8,
    "the step is not in the key": [fold(key, d) for d in range(8)],
    "the device came before the step": [fold(fold(key, d), 3) for d in range(8)],
}
causes = {cause: draw_masks(keys, shape) for cause, keys in causes.items()}
inputs = (jnp.stack([key] * 8), np.int32([3] * 8))
seen = observe(dropout_mask, *inputs, shape, "devices", axis="devices", traced=True)
expect_close(seen, masks, mistakes=causes)
x = np.float32(np.random.default_rng(0).random((1, 8, 8, 4, 8)) * np.arange(1, 9)).T
y, state = np.int32(np.arange(32) % 10).reshape(8, 4), init_cnn(1, (3,), hidden=16)
expected, added = (reference_cnn_step(state, masks, x, y, lr) for lr in (0.2, 1.6))
inputs = (copies(state, 8), *inputs, x, y, 0.2, "devices")
seen = observe(cnn_step, *inputs, axis="devices", traced=True)
expect_replicas(seen, likely="moments, gradients or losses were not synchronised")
expect_moments(seen, state, x, expected)
causes = {"the gradients were added up, not averaged": copies(added, 8)}
expect_close(seen, copies(expected, 8), rtol=1e-3, atol=1e-4, mistakes=causes)
### BEGIN HIDDEN TESTS
x, y, key = x[:4, :3], y[:4, :3], jax.random.key(77)
state = init_cnn(2, channels=(2,), hidden=9)
masks = draw_masks([fold(fold(key, 41), d) for d in range(4)], (3, 9))
expected = copies(reference_cnn_step(state, masks, x, y, 0.1), 4)
inputs = (copies(state, 4), jnp.stack([key] * 4), 41, x, y, 0.1, "data")
seen = observe(cnn_step, *inputs, axis="data")
expect_replicas(seen)
expect_close(seen, expected, rtol=1e-3, atol=1e-4)
### END HIDDEN TESTS

# %% [markdown]
# Your step trains the network: 176 random batches of 64 images.


# %%
def train_digits(state, images, labels):
    axes = (0, None, None, 0, 0)
    step = jax.pmap(lambda *a: cnn_step(*a, 0.2, "devices"), "devices", in_axes=axes)
    for number in range(176):
        rows = np.random.default_rng(number).choice(len(labels), (8, 8), replace=False)
        state, loss = step(state, jax.random.key(0), number, images[rows], labels[rows])
        jax.block_until_ready(loss)
    return state


stacked = jax.pmap(lambda _: init_cnn(0), "devices")(np.arange(8))  # replicate
seen = observe(train_digits, stacked, images[:1437], labels[:1437])
if seen.error:
    print(f"cnn_step does not run yet: {seen.error.text}")
    print("Solve exercise 3.6, then run this cell again.")
else:
    one = jax.tree.map(lambda leaf: leaf[0], seen.value)  # unreplicate
    stats = iter(one["stats"])
    logits, _ = cnn(one["params"], images[1437:], 0.5, lambda _: next(stats).values())
    right = np.mean(np.argmax(logits, axis=1) == labels[1437:])
    print(f"at least 97 % of 360 held-out digits are right: {right >= 0.97}")
    print("A wrong step may get there too: the check is the judge.")

# %% [markdown]
# ## 7. Porting to shard_map: the silent factor
#
# `pmap` is a legacy name; new code uses `jax.shard_map`, on a *mesh*: devices in a row,
# their axis named. Parameters are no longer stacked: the spec `P()` says *the same on all
# devices*, `P("devices")` splits the leading axis.
#
# **Predict, then run.** Below, `pmap`'s step, word for word, is compared with one device.

# %%
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

mesh = Mesh(jax.devices(), ("devices",))


def ported(params, x, y):  # params: whole, x: f32[64, 10]
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.lax.pmean((loss, grads), "devices")


specs = (P(), P("devices"), P("devices"))
ported = jax.jit(jax.shard_map(ported, mesh=mesh, in_specs=specs, out_specs=P()))
params, (x, y) = init_mlp(0), mlp_data(1, 512)
true_loss, true_grads = reference_perceptron(params, x, y)
loss, grads = ported(params, x, y)
print(f"loss: {loss / true_loss:.1f} x the reference")
for name, grad in grads.items():
    ratio = np.linalg.norm(grad) / np.linalg.norm(true_grads[name])
    print(f"gradient of {name}: {ratio:.1f} x the reference")

# %% [markdown]
# **Common mistake: the eightfold gradient.** `shard_map` knows that `params` are the
# same everywhere, so their gradient must be the same everywhere too: JAX *sums* the
# devices' gradients on the way back. `pmean` then averages eight equal sums, which
# changes nothing.
#
# No error, no drift, and the loss falls even faster.

# %%
params, (x, y), eightfold = init_mlp(0), mlp_data(1, 512), []
for _ in range(50):
    loss, grads = ported(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)
    eightfold.append(loss.item())
curves = {
    "one device, float64": runs["one device"][1],
    "pmap, pmean": runs["pmean"][1],
    "pmap, psum": runs["psum"][1],
    "shard_map, word for word": eightfold,
    "pmap, no sync": runs["no sync"][1],
}
title = "Four runs against one device"
draw_losses(curves, "loss as logged", title, log=False)

# %% [markdown]
# Only one run lies on the reference. The word-for-word port lies on `psum`'s curve,
# because it *is* that sum. **A falling loss must not hide it**: compare one step's
# gradient with one device whenever you port.
#
# The cure: differentiate what you mean, the loss averaged over *all* devices. Put
# `pmean` **inside** the function that you differentiate, and add no other collective.
# (In `pmap`, `pmean` in the loss leaves the gradients unsynchronised.)

# %% [markdown]
# ### Exercise 3.7: shard_map_step
#
# Stretch: `shard_map_step(params, x, y, lr, num_devices)` is `train_step` by
# `jax.shard_map`, on a mesh of the first `num_devices` devices. Global arrays go in and
# come out: `params` **without** a device axis, `x: (B, 10)`, `y: (B,)`; it returns
# `(params, loss)`, the loss `f32 ()` before the step.
#
# - Same numbers as one device: no factor `num_devices` in the gradient.
# - The result lies on all `num_devices` devices; each computes its own rows only, and
#   sends each gradient once.
# - `B` does not divide: `ValueError`, and its text names both sizes (`shard_map` raises
#   one).
# - Use `jax.jit`: alone, `shard_map` is slow.


# %% exercise="shard_map_step" minutes=12 difficulty=3
def shard_map_step(params, x, y, lr, num_devices):
    """Takes one SGD step on global arrays, on a mesh of the first devices.

    Args:
        params: tree of f32 (...), not stacked.
        x: f32 (B, 10), the rows of all devices.
        y: f32 (B,).
        lr: learning rate.
        num_devices: size of the mesh's only axis.

    Returns:
        (params, loss), the same on every device.

    Raises:
        ValueError: B does not divide by num_devices; the text names both.
    """

    ### BEGIN SOLUTION
    def step(params, x, y):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P())
    return jax.jit(mapped)(params, x, y)
    ### END SOLUTION


# %% [markdown] hints="shard_map_step"
# - Start from `ported` above: the same specs.
# - The mesh: `Mesh(jax.devices()[:num_devices], ("devices",))`.
# - Inside: `loss_of(params)` returns `jax.lax.pmean(mlp_loss(params, x, y), "devices")`;
#   its gradient needs no further sync.

# %% check="shard_map_step" points=4
params, (x, y), causes = init_mlp(1), mlp_data(7, 64), {}
after, [loss] = reference_sgd(params, x, y, 0.1, 1)
why = {8: "shard_map had summed it", 64: "summed twice", 1 / 8: "averaged twice"}
for times, text in why.items():
    far = reference_sgd(params, x, y, 0.1 * times, 1)[0]
    cause = f"the gradient is {times:g} times the right one: {text}"
    causes |= {cause: (far, loss), f"{cause}; the loss is a sum": (far, 8 * loss)}
likely = "no shard_map at all, another mesh, or P() for x and y"
for num_devices, how in ((8, "traced"), (4, "compiled")):
    seen = observe(shard_map_step, params, x, y, 0.1, num_devices, **{how: True})
    expect_close(seen, (after, loss), rtol=1e-4, atol=1e-5, mistakes=causes)
    where = {len(pieces) for pieces in seen.layout.values()}
    headline = f"The result is not on all {num_devices} devices."
    expect(seen, where == {num_devices}, headline, likely=likely)
    expect_moved(seen, at_least=1, likely=likely)
    expect_one_sync(seen, params, num_devices)
expect_arrays(seen, never=(64, 32), likely="each device computed all 64 rows")
uneven = observe(shard_map_step, params, x[:13], y[:13], 0.1, 8)
expect_error(uneven, "ValueError", mentions=[13, 8])
### BEGIN HIDDEN TESTS
for num_devices, rows, how in ((2, 14, "compiled"), (4, 12, "traced")):
    params, (x, y) = init_mlp(5, hidden=9), mlp_data(rows, rows)
    after, [loss] = reference_sgd(params, x, y, 0.3, 1)
    seen = observe(shard_map_step, params, x, y, 0.3, num_devices, **{how: True})
    expect_close(seen, (after, loss), rtol=1e-4, atol=1e-5)
    where = {len(pieces) for pieces in seen.layout.values()}
    expect(seen, where == {num_devices}, "The result is not on all devices.")
    expect_one_sync(seen, params, num_devices)
    if how == "compiled":
        expect_arrays(seen, never=(rows, 9))
uneven = observe(shard_map_step, params, x[:6], y[:6], 0.1, 4)
expect_error(uneven, "ValueError", mentions=[6, 4])
### END HIDDEN TESTS

# %% [markdown]
# ## Recap
#
# - With `pmean`, eight devices take the step of one, and replicas agree bit for bit.
# - Pad and mask what does not divide; divide by the count of *all* true rows.
# - Accumulate locally, sync once, clip after the sync.
# - Moments belong to the whole batch, dropout masks to a device and a step.
# - A missing or summed collective raises no error and may log a lower loss; a doubled
#   `pmean` only costs bytes. Compare a step with one device.

# %% [markdown]
# ## Three questions
#
# **1. Replicas start equal and take `pmean`ed steps. After 10,000 steps, how much do they
# differ?**
#
# <details><summary>By rounding errors</summary>
#
# Rounding is the same everywhere.
#
# </details>
# <details><summary>Not at all</summary>
#
# Right. A difference, however small, means that something was not synchronised.
#
# </details>
# <details><summary>It depends on how the shards differ</summary>
#
# Shards enter only through gradients, which `pmean` makes equal.
#
# </details>

# %% [markdown]
# **2. Devices hold 2, 2 and 1 true rows. What is the mean loss over the five?**
#
# <details><summary>pmean of the local means</summary>
#
# This counts the single row twice as much as the others.
#
# </details>
# <details><summary>psum of the local sums, divided by psum of the counts</summary>
#
# Right. Sum first, divide once.
#
# </details>
# <details><summary>psum of the local means, divided by 5</summary>
#
# Too small as a rule, and weighted wrongly.
#
# </details>

# %% [markdown]
# **3. You port a `pmap` step to `shard_map`. Replicas agree and the loss falls faster.
# What do you do?**
#
# <details><summary>Enjoy it: shard_map is faster</summary>
#
# In seconds, perhaps; a right port takes the same steps.
#
# </details>
# <details><summary>Lower the learning rate until the curves agree</summary>
#
# This hides the factor until clipping or another device count shows it.
#
# </details>
# <details><summary>Compare one step's gradient with one device</summary>
#
# Right. It shows the factor at once.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [JAX's guide to today's pmap](https://docs.jax.dev/en/latest/migrate_pmap.html) shows
#   how to move; it does not mention the factor.
# - [Optax](https://optax.readthedocs.io) has accumulation as `MultiSteps`.
#
# **Next**: [lesson 4](04_sharding_api.ipynb), where the compiler puts the collectives
# in.

# %% scorecard=true
