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
# - tell a synchronised run from one that only looks healthy;
# - weight the rows of a last batch that does not divide (second part);
# - port a step to `shard_map` without its silent eightfold gradient.
#
# **You need** lessons 1 and 2. **Time**: about 90 minutes, a pause before section 3;
# then a second part of 130.

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
num_devices = jax.device_count()  # 8, unless you run on real devices
line_x = np.float32(rng.normal(size=(num_devices, 16)))  # shard
line_y = np.float32(2 * line_x - 1 + 0.5 * rng.normal(size=line_x.shape))
# replicate: a stack on the host; pmap sends row d to device d
zeros = Line(*np.zeros((2, num_devices), np.float32))
step = jax.pmap(line_step, axis_name="devices")
line = step(zeros, line_x, line_y)
shown = {"weight": zeros.weight, "x": line_x}  # bias and y lie likewise
draw_pmap("line_step", shown, {"weight": line.weight}, sync="pmean of the\ngradients")

# %% [markdown]
# **Predict, then run.** After 1000 steps, how far apart are the eight replicas? And how
# far is replica 0 from the least-squares fit that NumPy finds on all 128 points?

# %%
for number in range(1, 1000):
    line = step(line, line_x, line_y)
    if number % 10 == 9:
        jax.block_until_ready(line)  # Python runs ahead of the devices: wait for them
replicas = np.asarray(line)  # f32[2, D]
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
#
# In **all** exercises here:
#
# - [arguments stay] A function leaves its arguments unchanged and alive: it donates none.
#   It may return its argument, or a view of it.
# - [nothing is remembered] Its result depends on its arguments, not on earlier calls.

# %% [markdown]
# ### Exercise 3.1: replicate
#
# `replicate(tree, num_devices)` copies a tree of arrays and Python numbers.
#
# - [a row on each device] Every leaf gets a leading axis of `num_devices` equal rows,
#   **one row on each** of the first `num_devices` devices.
# - [dtypes stay] Arrays, of 32 bits or fewer, keep their dtypes; a Python float becomes
#   f32, an int i32, a bool a bool.
# - [too many replicas] More replicas than devices: `ValueError`, and its text names both
#   numbers. Raise it yourself: `pmap`'s error does not always name them.
#
# [the first replica] `unreplicate(tree)` takes a tree of arrays `(D, ...)` of such dtypes
# and returns the **first** row of each, an array or a NumPy scalar.


# %% exercise="replicate" minutes=15 difficulty=1
def replicate(tree, num_devices):
    """Copies a tree to the first devices, one row of a new leading axis on each.

    Args:
        tree: pytree of arrays (...), of the host or the first device, none empty, and
            Python numbers.
        num_devices: number of replicas D, at least 1.

    Returns:
        The same tree with arrays (D, ...) of the same dtypes; f32, i32 or bool for
        Python's.

    Raises:
        ValueError: there are fewer devices; the text names both numbers.
    """
    ### BEGIN SOLUTION
    if num_devices > jax.device_count():
        text = f"{num_devices} replicas need more than {jax.device_count()} devices"
        raise ValueError(text)
    copy = jax.pmap(lambda _, whole: whole, in_axes=(0, None))
    return copy(np.arange(num_devices), tree)
    ### END SOLUTION


def unreplicate(tree):
    """Keeps the first replica of a tree of arrays (D, ...): arrays (...)."""
    ### BEGIN SOLUTION

    def first(leaf):  # from one device alone, where it holds the whole row
        shards = getattr(leaf, "addressable_shards", None)
        near = shards[0].data if shards else leaf
        return near[0] if near.shape[1:] == leaf.shape[1:] else leaf[0]

    return jax.tree.map(first, tree)
    ### END SOLUTION


# %% [markdown] hints="replicate"
# - `pmap` can do it: what goes in whole (`in_axes=None`) and comes out is stacked, one
#   copy per device.
# - It needs one mapped argument that says how many: `np.arange(num_devices)`. First
#   compare that number with `jax.device_count()`.
# - `jax.tree.map(lambda leaf: leaf[0], tree)` reaches every leaf of a tree; "Going
#   further" shows what it costs.

# %% check="replicate"

# %% [markdown]
# ## 2. Step and sync
#
# Now a two-layer perceptron learns a function of ten numbers.

# %%
from coursekit.references import reference_perceptron, reference_sgd


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

    parallel, params = jax.pmap(step, "devices"), copies(init_mlp(0), num_devices)
    record = np.zeros((2, 50))  # the replicas' spread, and the loss
    for n in range(50):
        params, loss = parallel(params, *batch)
        record[:, n] = np.ptp(np.asarray(params["w1"]), axis=0).max(), loss[0]
    return record


batch = mlp_data(1, num_devices, 64)
syncs = {"pmean": jax.lax.pmean, "psum": jax.lax.psum, "no sync": lambda g, _: g}
runs = {"one device": reference_sgd(init_mlp(0), *batch, 0.01, 50)}
runs |= {name: train(sync) for name, sync in syncs.items()}
print("step ", *(f"{name:>10}" for name in runs))
for n in (0, 10, 25, 49):
    print(f"{n:4} ", *(f"{losses[n]:10.3f}" for _, losses in runs.values()))
spreads = {name: runs[name][0] for name in sorted(syncs)}
draw_losses(spreads, "largest distance of two w1", "Replica spread", log=False)

# %% [markdown]
# **Common mistake: trusting the log.** Both wrong runs log *lower* losses. Without sync
# each replica fits its own eighth of the data. With `psum` the gradient is eight times
# too large: a learning rate that you did not choose.
#
# `psum`'s replicas agree, too: equal is not yet right. Only `pmean` follows one device,
# up to rounding. So the checks never ask whether the loss falls; they compare with the
# 64-bit reference, to f32 rounding. You compute in f32.

# %% [markdown]
# Where an exercise says what devices compute or send, its check traces your code: use no
# `float()` and no NumPy on traced arrays. *Once* means: each loss, and each gradient (or
# new parameter), goes through exactly one all-reduce; how you group them is free.

# %% [markdown]
# ### Exercise 3.2: train_step
#
# [one step of SGD] `train_step(params, x, y, lr)` takes an SGD step, `p - lr * gradient`,
# on `D` devices, like one device on the whole batch. `params` are `mlp`'s, of any width,
# stacked `(D, ...)`; `x: (D, B, 10)`, `y: (D, B)`.
#
# - [a row on each device] It returns `(params, loss)`; row `d` lies on device `d`.
# - [the loss before] The loss, `(D,)`, is the batch's mean **before** the step.
# - [replicas agree] Equal replicas give equal rows, bit for bit.
# - [own shard only] Each device computes its own shard.
# - [sent once] It sends each gradient and the loss once, nothing else.
# - [one program] Calls of equal types, shapes and placements (host, or which devices)
#   share **one** program, for every `lr`.
# - [integer parameters] Integer parameters raise JAX's `TypeError` (nothing to write).


# %% exercise="train_step" minutes=15 difficulty=2
def device_step(params, x, y, lr):
    """Takes the step on one device, inside the axis "devices": x is (B, 10).

    Returns this device's new replica, and the loss, f32 ().
    """
    ### BEGIN SOLUTION
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
    ### END SOLUTION


def train_step(params, x, y, lr):
    """Takes one synchronised SGD step on D devices.

    Args:
        params: as `init_mlp` makes them, but f32 (D, ...), a replica per device.
        x: f32 (D, B, 10); like params and y on the host, or row d on device d.
        y: f32 (D, B).
        lr: learning rate, a number.

    Returns:
        (params, loss): the updated replicas and the mean loss before, f32 (D,).

    Raises:
        TypeError: an array of parameters holds integers.
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

# %% check="train_step"

# %% [markdown]
# ## 3. Porting to shard_map: the silent factor
#
# A good moment for a pause; if the kernel has stopped, run the cells above again.
#
# `pmap` is a legacy name; new code uses `jax.shard_map`, on a *mesh*: devices in a row,
# their axis named. Parameters are no longer stacked: the spec `P()` says *the same on all
# devices*, `P("devices")` splits the leading axis.
#
# **Predict, then run.** Below is `pmap`'s step, word for word. How large are its loss and
# its gradients, beside one device's?

# %%
import functools

from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

mesh = Mesh(jax.devices(), ("devices",))


def ported(params, x, y):  # params: whole, x: f32[64, 10]
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.lax.pmean((loss, grads), "devices")


specs = (P(), P("devices"), P("devices"))
ported = jax.jit(jax.shard_map(ported, mesh=mesh, in_specs=specs, out_specs=P()))
params, (x, y) = init_mlp(0), mlp_data(1, 512)
true_loss, true_grads = reference_perceptron(params, x, y)  # one device, 64 bits
loss, grads = ported(params, x, y)
print(f"loss: {loss / true_loss:.1f} x the reference")
for name, grad in grads.items():
    ratio = np.linalg.norm(grad) / np.linalg.norm(true_grads[name])
    print(f"gradient of {name}: {ratio:.1f} x the reference")

# %% [markdown]
# **Common mistake: the eightfold gradient.** `shard_map`, unless you give it
# `check_vma=False`, sees *one* `params`, used by eight devices. By the chain rule its
# gradient is the *sum* of theirs, which JAX takes on the way back. `pmean` then averages
# eight equal sums, which changes nothing. No error, no drift.
#
# AdamW hides the factor ("Going further" shows it). So **compare one step's gradient with
# one device** whenever you port.
#
# The cure: differentiate what you mean, the loss averaged over *all* devices. Put
# `pmean` **inside** the function that you differentiate, and add no other collective.
# (In `pmap`, `pmean` in the loss leaves the gradients unsynchronised: lesson 2, section
# 4.)

# %% [markdown]
# `shard_map` alone compiles in each call ("Going further" shows it). Make
# `jit(shard_map(...))` once and keep it; `functools.cache` keeps one for each number of
# devices. Leave compiling to `jit`: what `.lower().compile()` gives fits one input shape
# only.

# %% [markdown]
# ### Exercise 3.3: shard_map_step
#
# [one step of SGD] `shard_map_step(params, x, y, lr, num_devices)` is `train_step` by
# `jax.shard_map`, on a mesh of the first `num_devices` devices. Global arrays go in and
# come out: `params` **without** a device axis, `x: (B, 10)`, `y: (B,)`. Losses and
# parameters equal one device's on the whole batch.
#
# - [the loss before] It returns `(params, loss)`: the loss before the step, `f32 ()`.
# - [whole on each device] Each device of the mesh holds all of the result.
# - [own rows only] Each computes its own rows only.
# - [sent once] It sends each gradient and the loss once, nothing else.
# - [one program] Calls of equal types, shapes, placements and `num_devices` share **one**
#   program, for every `lr`.
# - [rows do not divide] `B` does not divide by `num_devices`: `ValueError`; its text
#   names both (`shard_map`'s does).


# %% exercise="shard_map_step" minutes=13 difficulty=2
@functools.cache
def compiled_step(num_devices):
    """Makes the step's program for the first devices: once, then it is kept."""

    ### BEGIN SOLUTION
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P()))
    ### END SOLUTION


def shard_map_step(params, x, y, lr, num_devices):
    """Takes one SGD step on global arrays, on a mesh of the first devices.

    Args:
        params: as `init_mlp` makes them, of any width; on the host, or on each device
            of the mesh.
        x: f32 (B, 10), the rows of all devices; on the host, or split over
            the first num_devices devices.
        y: f32 (B,), too.
        lr: learning rate, a number.
        num_devices: size of the mesh's only axis.

    Returns:
        (params, loss), the same on every device.

    Raises:
        ValueError: B does not divide by num_devices; the text names both.
    """
    return compiled_step(num_devices)(params, x, y, lr)


# %% [markdown] hints="shard_map_step"
# - Start from `ported` above: the same specs, and `P()` for `lr`.
# - The mesh: `Mesh(jax.devices()[:num_devices], ("devices",))`. (`jax.make_mesh` now
#   makes Explicit axes, for which `shard_map` refuses arrays of the host.)
# - Inside: `loss_of(params)` returns `jax.lax.pmean(mlp_loss(params, x, y), "devices")`;
#   its gradient needs no further sync.

# %% check="shard_map_step"

# %% [markdown]
# ## Recap
#
# - With `pmean`, eight devices take the step of one, and replicas agree bit for bit.
# - A missing or summed collective raises no error and may log a lower loss. Compare one
#   step with one device.
# - In `shard_map`, `pmean` goes into the loss that you differentiate; make the program
#   once.

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
# **2. A loop calls `jax.jit(jax.shard_map(step, ...))(params, x, y)`. When does it
# compile?**
#
# <details><summary>In the first round only</summary>
#
# JAX finds a program by its function, and here each round makes a new one.
#
# </details>
# <details><summary>In each round</summary>
#
# Right. Make the function once, before the loop.
#
# </details>
# <details><summary>Once for each shape of the arrays</summary>
#
# This is so where the function stays the same.
#
# </details>

# %% [markdown]
# **3. You port a `pmap` step to `shard_map`. Replicas agree and the loss falls faster.
# What do you do?**
#
# <details><summary>Enjoy it: shard_map is faster</summary>
#
# A right port may take less time, but its losses stay the same.
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
# ## Going further
#
# The first part ends here. The second, 130 minutes with a pause before section 6, adds
# what real training needs; run the cells above first. Its exercises count like all
# others. Most of their functions run on each device of a `pmap`, inside its axis, where
# gradients need a collective of their own.

# %% [markdown]
# ## Then and now
#
# The web is full of *then*:
#
# | then | now |
# |---|---|
# | `jax.tree_map` | `jax.tree.map` |
# | `jax.pmap(step, "devices")` | `jax.jit(jax.shard_map(step, ...))`; move `pmean` into the loss |
# | `jax.experimental.shard_map` | `jax.shard_map` |
# | `check_rep=False` | `check_vma=False`: gradients stay each device's own, so `pmean` them, as in `pmap`; a `pmean` in the loss does not do it |
# | `jax.device_put_replicated`, `flax.jax_utils.replicate` | `jax.device_put(tree, NamedSharding(mesh, P()))`: no device axis |
# | `jax.device_put_sharded` | `jax.device_put(x, NamedSharding(mesh, P("devices")))` |
# | `flax.jax_utils.unreplicate` | nothing: no device axis to remove |
# | `jax.random.PRNGKey(0)` | `jax.random.key(0)` |
# | `flax.optim`, `jax.experimental.optimizers` | Optax |

# %% [markdown]
# ### What the factor does to training
#
# **Predict, then run.** SGD, by [Optax](https://optax.readthedocs.io), takes steps that
# are eight times too long. And AdamW?


# %%
import optax


def losses_of(optimizer, loss_and_grads):  # of 50 steps
    @jax.jit
    def step(params, state):
        loss, grads = loss_and_grads(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    params, losses = init_mlp(0), []
    state = optimizer.init(params)
    for _ in range(50):
        params, state, loss = step(params, state)
        losses.append(loss.item())
    return losses


(x, y), curves = mlp_data(1, 512), {}
for name, optimizer in {"SGD": optax.sgd(0.01), "AdamW": optax.adamw(0.001)}.items():
    curves[f"{name}, one device"] = losses_of(optimizer, jax.value_and_grad(mlp_loss))
    curves[f"{name}, word for word"] = losses_of(optimizer, ported)
draw_losses(curves, "loss", "The eightfold gradient under two optimizers", log=False)

# %% [markdown]
# AdamW hides it: it divides each gradient by that gradient's recent size, so a constant
# factor cancels. Clipping by norm, a logged gradient norm or another optimizer brings it
# back. Under SGD the loss falls even *faster*.

# %% [markdown]
# ### What compiles again
#
# JAX finds a compiled program by its function. What `shard_map` returns makes a new
# function each time you call it. Which of these compile in their second and third calls?


# %%
def total(x):  # f32[8] on each device -> the sum of all 64
    return jax.lax.psum(x.sum(), "devices")


def mapped():
    return jax.shard_map(total, mesh=mesh, in_specs=P("devices"), out_specs=P())


ways = {
    "shard_map alone": mapped(),
    "jit made in each call": lambda x: jax.jit(mapped())(x),
    "jit made once": jax.jit(mapped()),
}
for name, way in ways.items():
    seen = [observe(way, np.ones(64, np.float32)) for _ in range(3)]
    compiles = ["yes" if call.num_compiles else "no" for call in seen]
    print(f"{name + ':':24}", *compiles)

# %% [markdown]
# A `jit` made in each call gets a new function in each. Compiling takes many times as
# long as a small step.

# %% [markdown]
# ### What leaf[0] sends
#
# **Predict, then run.** Since JAX 0.8, `leaf[0]` is a program of *all* devices;
# `leaf.addressable_shards[0].data` is what one holds already, with nothing to run. What
# does the program send?

# %%
from coursekit.compiled_program import CompiledProgram
from jax.sharding import NamedSharding

by_device = NamedSharding(mesh, P("devices"))
stacked = jax.device_put(np.ones((num_devices, 1000), np.float32), by_device)
program = CompiledProgram(jax.jit(lambda leaf: leaf[0]).lower(stacked).compile())
print("leaf[0]:", *map(str, program.collectives or ["nothing"]))
shard = stacked.addressable_shards[0].data
print("the first shard:", shard.shape, "on device", shard.device.id)

# %% [markdown]
# All devices get the row, as a sum: its own device adds the row, seven add zeros. Your
# `unreplicate` may use `leaf[0]`; NumPy's rows have no shards.

# %% [markdown]
# ## 4. The batch that does not divide
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
x, y = (pad_rows(a, 16).reshape(num_devices, -1, *a.shape[1:]) for a in (x, y))
local = jax.pmap(mlp_loss, in_axes=(None, 0, 0))(params, x, y)
print(f"mean over 13 true rows:  {truth:.4f}")
print(f"mean over {num_devices} devices:     {np.mean(local):.4f}")
print("devices without a true row:", np.sum(np.arange(0, 16, len(x[0])) >= 13))

# %% [markdown]
# The second mean counts three rows of zeros as if they were true.

# %% [markdown]
# ### Exercise 3.4: pad_and_shard
#
# `pad_and_shard(batch, num_devices)` takes a tree of arrays `(B, ...)` of at most 32
# bits, and returns `(batch, mask)`.
#
# - [rows of zeros] It appends just enough zero rows to divide by `D = num_devices`.
# - [order and dtypes stay] Arrays become `(D, k, ...)`, order and dtypes kept.
# - [the mask] `mask: bool (D, k)` is true for true rows.
# - [an empty batch] No rows: `ValueError`.
#
# `weighted_loss(params, x, y, mask, axis_name)` runs on each device, inside the axis.
#
# - [a device's share] It returns the sum of `(mlp(params, x) - y) ** 2` over its true
#   rows, divided by the number of true rows of **all** devices.
# - [gradients add up] Shares add up to the mean, their gradients to its gradient.
# - [masked rows do not matter] Masked rows hold any finite numbers within ±1,000,000.


# %% exercise="pad_and_shard" minutes=16 difficulty=2
def pad_and_shard(batch, num_devices):
    """Pads a batch until it divides, and splits it over the devices.

    Args:
        batch: pytree of arrays (B, ...), the other sizes at least 1.
        num_devices: number of blocks D.

    Returns:
        (batch, mask): arrays (D, k, ...) with zeros in the padding, bool (D, k).

    Raises:
        ValueError: the batch has no rows.
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
    """Returns a device's share, f32 (): all shares add up to the true rows' mean.

    Args:
        params: as `mlp` takes them.
        x: f32 (k, 10), this device's rows.
        y: f32 (k,).
        mask: bool (k,), true for true rows: at least one in all; a device may have none.
        axis_name: the axis of devices.
    """
    ### BEGIN SOLUTION
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)
    ### END SOLUTION


# %% [markdown] hints="pad_and_shard"
# - `-(-B // D)` is `B / D`, rounded up. `pad_rows` above appends rows to one array.
# - The mask is a batch like any other: pad and split `np.ones(B, bool)`.
# - A share: the sum over this device's true rows, divided by the number of true rows on
#   *all* devices, which is `jax.lax.psum(mask.sum(), axis_name)`.

# %% check="pad_and_shard"

# %% [markdown]
# ## 5. A large batch in small pieces
#
# A batch may be too large for a device's memory: its *activations*, kept for the
# gradient, grow with it. So take it in microbatches, one after the other, add up the
# gradients, and step once. This is **gradient accumulation**.
#
# **Predict, then run.** Four rounds of 100 numbers: how many bytes does one sync
# instead of four save, on the ring of lesson 2?


# %%
def add_rounds(rows, sync_in_loop):  # rows: f32[4, 100], a row per round
    def add(total, row):
        return total + (jax.lax.pmean(row, "devices") if sync_in_loop else row), None

    total, _ = jax.lax.scan(add, jnp.zeros(100), rows)  # a loop in the program
    return total if sync_in_loop else jax.lax.pmean(total, "devices")


mapped = jax.pmap(add_rounds, "devices", static_broadcasted_argnums=1)
rows = np.ones((num_devices, 4, 100), np.float32)
for sync_in_loop in (True, False):
    for sent in collectives(mapped, rows, sync_in_loop):
        print(f"{sent.bytes_moved:,.0f} bytes from each device: {sent}")

# %% [markdown]
# ### Exercise 3.5: accumulated_step
#
# [one step of SGD] `accumulated_step(params, x, y, lr, axis_name)` runs on each device,
# inside the axis. `params` have no device axis, `x: (M, B, 10)` and `y: (M, B)` hold `M`
# microbatches. It returns `(params, loss)` as **one** SGD step on all rows of all devices
# would.
#
# - [the loss before] The loss, `f32 ()`, is the mean over all rows before the step.
# - [equal on all devices] Results are equal on all devices, bit for bit.
# - [one sync] A device sends each gradient and the loss once, not inside a loop, and
#   nothing else.
# - [one microbatch at a time] In your program's order, hidden layers of two
#   microbatches are never needed at the same time. It is enough to finish each, gradient
#   included, before the next.


# %% exercise="accumulated_step" minutes=15 difficulty=2
def accumulated_step(params, x, y, lr, axis_name):
    """Takes one SGD step on M microbatches per device, with one sync.

    Args:
        params: as `init_mlp` makes them, of any width; this device's replica.
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
# - After the scan: divide by `M`, then one `pmean`, then the update. (The check takes a
#   Python loop, too; compiled, it may hold all hidden layers.)

# %% check="accumulated_step"

# %% [markdown]
# ## 6. An optimizer inside the step
#
# Optax optimizers are two functions: `init(params)`
# makes the state, `update(grads, state, params)` returns what to add to the parameters,
# and the next state. Replicas of the state stay equal if each sees the **same** gradient.
#
# **Common mistake: clipping before the sync.** Clipping scales a gradient down where its
# norm is above a limit. It is not linear, so the order matters. Here one device has a hard shard:


# %%
def clip(grads, max_norm):  # grads: [..., N], one gradient per row
    norm = np.linalg.norm(grads, axis=-1, keepdims=True)
    return grads * np.minimum(1, max_norm / norm)


grads = np.array([[0.2, 0.0]] * 7 + [[0.0, 24.0]])
print("average, then clip:", clip(grads.mean(axis=0), 1).round(2))
print("clip, then average:", clip(grads, 1).mean(axis=0).round(2))

# %% [markdown]
# One device with the whole batch takes the first.

# %% [markdown]
# ### Exercise 3.6: optimizer_step
#
# `make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay)` returns an
# Optax optimizer, for any tree:
#
# - [clip by global norm] clip all gradients, as one vector, to the norm `max_norm`;
# - [then AdamW] then AdamW: Adam that also shrinks parameters, by `weight_decay`; all
#   else is Optax's default;
# - [warm-up and cosine] the learning rate rises linearly from 0, at step 0, to
#   `peak_lr` at step `warmup_steps`, then falls along a cosine to 0 at step
#   `num_steps`.
#
# `optimizer_step(params, opt_state, x, y, optimizer, axis_name)` runs inside the axis.
#
# - [like one device] It returns what one device would from the whole batch,
# - [equal on all devices] bit for bit the same on all devices.
# - [any optimizer] `optimizer` may be any of Optax's with the `update` above.
# - [one sync] It sends each gradient and the loss once, nothing else.


# %% exercise="optimizer_step" minutes=17 difficulty=2
def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    """Makes AdamW after global-norm clipping; 0 < warmup_steps < num_steps."""
    ### BEGIN SOLUTION
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)
    ### END SOLUTION


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    """Takes one synchronised step with an Optax optimizer, on one device.

    Args:
        params: as `init_mlp` makes them, of any width; this device's replica.
        opt_state: the optimizer's state, this device's replica.
        x: f32 (B, 10), this device's rows.
        y: f32 (B,).
        optimizer: what `make_optimizer` returned, or any other Optax optimizer whose
            `update` needs gradients, state and parameters alone.
        axis_name: the axis of devices.

    Returns:
        (params, opt_state, loss): the mean loss before the step, f32 ().
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

# %% check="optimizer_step"

# %% [markdown]
# ## 7. BatchNorm and dropout
#
# Now a small convolutional network for 1,797 handwritten digits of 8 x 8 pixels. Two of
# its parts ask *which rows are the batch?* and *which device am I?*
#
# - **BatchNorm** normalises with the batch's mean and variance, its *moments*, here
#   through a function `moments(h)` that you choose.
# - **Dropout** drops random units. From one key all devices would drop the same ones: too
#   little randomness.


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
state, history = copies(init_cnn(0), num_devices), []
for number in range(40):
    rows = images[32 * number :][:32].reshape(num_devices, -1, 8, 8, 1)
    state = local_stats(state, rows)
    history.append(np.asarray(state["stats"][0]["mean"])[:, 0])
percent = 100 * (history / np.mean(history, axis=1, keepdims=True) - 1)
three = {f"device {d}": percent[:, d] for d in (0, 3, 6) if d < num_devices}
title = "Running mean of channel 0 on three devices, not synced"
draw_losses(three, "% off the average of eight", title, log=False)

# %% [markdown]
# The curves cross, but the replicas never agree: some per cent remain. Which of the eight
# would you save? And each shard of four images was normalised in its own way.

# %% [markdown]
# ### Exercise 3.7: cnn_step
#
# Both functions run on each device, inside the axis.
#
# - [step, then device] `dropout_mask(key, step, shape, axis_name)`: all devices get one
#   `key`. Fold in `step`, which may be traced, **then** the device's index, and draw
#   `jax.random.bernoulli(key, 0.5, shape)`.
# - [one step of SGD] `cnn_step(state, key, step, x, y, lr, axis_name)` takes one SGD step
#   on `cross_entropy`. `state` is like `init_cnn`'s, of any channels and width;
#   `x: (B, 8, 8, 1)`, `y: i32 (B,)`.
# - [equal on all devices] It returns `(state, loss)`, bitwise equal on all devices.
# - [this mask] `keep` is `dropout_mask`'s of shape `(B, H)`: `params["out"]` is `(H, 10)`.
# - [moments of all rows] Moments are those of the rows of **all** devices, as
#   `batch_moments` computes them on one, gradients included;
# - [running moments] the new `stats` are `moving_average(old stats, moments)`.


# %% exercise="cnn_step" minutes=26 difficulty=3
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
        (state, loss): the mean loss before the step, f32 ().
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
#   `((loss, used), grads)`. In `pmap`, `pmean`'s gradient is again a `pmean`, so the
#   gradient goes through the moments; a last `pmean` of loss and gradients finishes it.

# %% check="cnn_step"

# %% [markdown]
# Your step trains the network: 176 random batches of 64 images, some eight epochs.


# %%
def train_digits(state, images, labels):
    axes, shape = (0, None, None, 0, 0), (num_devices, 64 // num_devices)
    step = jax.pmap(lambda *a: cnn_step(*a, 0.2, "devices"), "devices", in_axes=axes)
    for number in range(176):
        rows = np.random.default_rng(number).choice(len(labels), shape, replace=False)
        state, loss = step(state, jax.random.key(0), number, images[rows], labels[rows])
        jax.block_until_ready(loss)
    return state


stacked = jax.pmap(lambda _: init_cnn(0), "devices")(np.arange(num_devices))
seen = observe(train_digits, stacked, images[:1437], labels[:1437])
if seen.error:
    print(f"cnn_step does not run yet: {seen.error.text}")
    print("Solve exercise 3.7, then run this cell again.")
else:
    one = jax.tree.map(lambda leaf: leaf[0], seen.value)  # unreplicate
    stats = iter(one["stats"])
    logits, _ = cnn(one["params"], images[1437:], 0.5, lambda _: next(stats).values())
    right = np.mean(np.argmax(logits, axis=1) == labels[1437:])
    print(f"at least 97 % of 360 held-out digits are right: {right >= 0.97}")
    print("A wrong step may get there too: the check is the judge.")

# %% [markdown]
# Of the second part, keep: pad and mask what does not divide, and divide by the count
# of *all* true rows. Accumulate locally, sync once, clip after the sync. Moments belong
# to the whole batch, dropout masks to a device and a step.

# %% [markdown]
# ## Now in the wild
#
# - [JAX's guide to today's pmap](https://docs.jax.dev/en/latest/migrate_pmap.html) shows
#   how to move; it does not mention the factor.
# - Optax has accumulation as
#   [MultiSteps](https://optax.readthedocs.io/en/latest/_collections/examples/gradient_accumulation.html).
# - Whole programs lie in `solutions/references/`; each has `--help`.
#   `pmap_linear_regression.py` is section 1, `keras_digits.py` section 7 by Keras under
#   `jit`, `sharded_pipeline.py` a linear fit under `jit`. `ensemble.py` trains eight
#   CNNs, one per device, *without* a sync, and averages what they say: lesson 2's
#   `ensemble_probs`.
#
# **Next**: [lesson 4](04_sharding_api.ipynb), where the compiler puts the collectives
# in.

# %% [markdown]
# **Your score.** The scorecard shows what the checks above said last. Save the notebook,
# then run `make grade` in a terminal, in the course's folder: it grades the saved file as
# a class's work is graded, and shows the same cards.

# %% scorecard=true
