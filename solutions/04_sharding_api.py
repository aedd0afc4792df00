# %% [markdown]
# # Lesson 4. The sharding API
#
# COLAB_BADGE
#
# Until now you wrote what *one device* does. From here on you write what *all* compute
# together, and say where arrays lie; the compiler puts the collectives in. Values come
# out right in any case. Memory and traffic do not: this lesson measures them.
#
# **After this lesson you can**
#
# - place any array on any mesh;
# - train data parallel, tensor parallel and with FSDP, by changing specs only;
# - create a model that fits on no single device;
# - check what the compiler made of it.
#
# **You need** lessons 1 to 3. **Time**: about 90 minutes, eight exercises.

# %% setup=true

# %% [markdown]
# ## 1. Mesh, spec, sharding
#
# - A **mesh** arranges devices in a grid and names its axes.
# - A **spec** `P(...)` has an entry per *array* axis: a mesh axis to split it over, or
#   `None`.
# - A **sharding** is both: `NamedSharding(mesh, spec)`. `jax.device_put(x, sharding)`
#   places `x`.
#
# Always pass `axis_types`: their default differs between JAX versions (section 4).

# %%
import functools
import math

import optax
from compiled import Compiled
from facts import leaves
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def make_mesh(shape, names):  # of the first devices
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))


mesh = make_mesh((8,), ("data",))
x = np.arange(64, dtype=np.float32).reshape(16, 4)
x = jax.device_put(x, NamedSharding(mesh, P("data", None)))
viz.draw_array(x, 'mesh (8,), P("data", None):')

# %% [markdown]
# `x` is one `jax.Array` of shape `(16, 4)`, without the device axis of `pmap`.
#
# **Predict, then run.** Now the mesh has two axes, 4 x 2. A `(D, hidden)` weight is
# split by columns over `"model"` alone. What does each device hold?
#
# **Common mistake: a mesh larger than the machine.** Some tutorials reshape *four*
# devices to `(4, 2)`. Which of the three at the end works?

# %%
mesh = make_mesh((4, 2), ("data", "model"))
w = np.ones((4, 8), np.float32)
w = jax.device_put(w, NamedSharding(mesh, P(None, "model")))
viz.draw_array(w, 'mesh (4, 2), P(None, "model"):')
stack = np.ones((4, 2, 4), np.float32)
stack = jax.device_put(stack, NamedSharding(mesh, P("data", None, "model")))
viz.draw_array(stack, 'P("data", None, "model"):')

for name, build in {
    "4 devices as (4, 2)": lambda: np.array(jax.devices()[:4]).reshape(4, 2),
    "8 devices as (4, 2)": lambda: make_mesh((4, 2), ("data", "model")),
    "8 devices as (4, 4)": lambda: make_mesh((4, 4), ("data", "model")),
}.items():
    try:
        print(name, "is fine:", build().size)
    except ValueError as error:
        print(name, "is a", type(error).__name__)

# %% [markdown]
# Each device holds half the columns. A mesh axis that the spec does not name leaves
# *replicas* (hatched). Entries missing at a spec's end count as `None`; `P()` replicates
# everything.

# %% [markdown]
# ### Exercise 4.1: make_mesh_and_place
#
# `make_mesh_and_place(x, shape, axis_names, spec)` builds a mesh of `shape` from the
# **first** devices, in order, and places `x` on it. `spec` is a plain tuple: its
# entries are a name, a tuple of names, or `None`.
#
# - More devices asked for than there are: `ValueError`, and its text names both numbers.
# - A name in `spec` that the mesh lacks: `ValueError`, and its text names it.


# %% exercise="make_mesh_and_place" minutes=5 difficulty=1
def make_mesh_and_place(x, shape, axis_names, spec):
    """Places an array on a mesh of the first devices.

    Args:
        x: array (...).
        shape: devices along each mesh axis, a tuple.
        axis_names: their names, a tuple.
        spec: per array axis a mesh axis, a tuple of them, or None.

    Returns:
        The array, placed.

    Raises:
        ValueError: too few devices (names both numbers), or an unknown axis (names it).
    """
    ### BEGIN SOLUTION
    needed, available = math.prod(shape), jax.device_count()
    if needed > available:
        raise ValueError(f"the mesh needs {needed} devices, there are {available}")
    mesh = make_mesh(shape, axis_names)
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))
    ### END SOLUTION


# %% [markdown] hints="make_mesh_and_place"
# - `make_mesh` above takes the first devices by itself. `P(*spec)` makes the spec.
# - `math.prod(shape)` devices are needed, `jax.device_count()` are there.
# - `NamedSharding` refuses a name that the mesh lacks, with the error that is asked for.


# %%
def blocks(shape, mesh_shape, names, spec):  # for the checks: device -> (start, stop)s
    sharding = NamedSharding(make_mesh(mesh_shape, names), P(*spec))
    numbers = {device: number for number, device in enumerate(jax.devices())}
    return {
        numbers[device]: tuple(
            part.indices(n)[:2] for part, n in zip(index, shape, strict=True)
        )
        for device, index in sharding.devices_indices_map(tuple(shape)).items()
    }


def expect_layout(seen, path, mesh_shape, names, spec, likely=""):
    leaf, found = dict(leaves(seen.value))[path], seen.layout.get(path, ())
    found = {shard.device: shard.index for shard in found}
    wanted = blocks(np.shape(leaf), mesh_shape, names, spec)
    for d in sorted({*found, *wanted}):
        texts = [
            f"[{', '.join(f'{a}:{b}' for a, b in one[d])}]" if d in one else "nothing"
            for one in (found, wanted)
        ]
        headline = f"Device {d} holds {texts[0]} of {path or 'the result'}."
        expect(seen, texts[0] == texts[1], headline, expected=texts[1], likely=likely)


# %% check="make_mesh_and_place" points=1
x = np.arange(128, dtype=np.float32).reshape(8, 16)
names = ("data", "model")
likely = "the first entry of spec belongs to the array's first axis"
for shape, spec in (
    ((4, 2), ("data", "model")),
    ((2, 4), ("model", "data")),
    ((4, 2), (None, ("model", "data"))),
    ((2, 2), (None, "model")),
):
    for traced in (True, False):
        seen = observe(make_mesh_and_place, x, shape, names, spec, traced=traced)
        expect_close(seen, x)
        expect_layout(seen, "", shape, names, spec, likely)
many = observe(make_mesh_and_place, x, (8, 2), names, ("data",))
expect_error(many, "ValueError", mentions=[16, 8])
unknown = observe(make_mesh_and_place, x, (4, 2), names, ("data", "rows"))
expect_error(unknown, "ValueError", mentions=["rows"])
### BEGIN HIDDEN TESTS
for array, shape, names, spec in (
    (x.reshape(2, 4, 16), (2, 2, 2), ("a", "b", "c"), ("c", ("b", "a"))),
    (np.int32(x), (1, 4), ("p", "q"), (("p", "q"),)),
    (np.ones((), np.float32), (8,), ("i",), ()),
    (x[0], (2,), ("i",), ("i",)),
):
    seen = observe(make_mesh_and_place, array, shape, names, spec, traced=True)
    expect_close(seen, array)
    expect_layout(seen, "", shape, names, spec)
many = observe(make_mesh_and_place, x, (3, 5), ("a", "b"), ())
expect_error(many, "ValueError", mentions=[15, 8])
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 4.2: predict_layout
#
# Can you do in your head what JAX did? `predict_layout(shape, mesh_shape, spec)`
# returns `(shard_shape, num_distinct)`: the shape of one device's block, and how many
# *different* blocks there are. Pure Python, no devices. `mesh_shape` is a dict, say
# `{"data": 4, "model": 2}`; `spec` as in 4.1, perhaps shorter than `shape`.
#
# - An axis that does not divide: `ValueError`, naming its size and the number of parts.
# - An unknown mesh axis: `ValueError`, naming it.


# %% exercise="predict_layout" minutes=8 difficulty=1
def predict_layout(shape, mesh_shape, spec):
    """Predicts how a sharding splits an array.

    Args:
        shape: of the array.
        mesh_shape: devices along each mesh axis, by name.
        spec: per array axis a mesh axis, a tuple of them, or None.

    Returns:
        (shard_shape, num_distinct): a tuple like shape, and a number.

    Raises:
        ValueError: an axis does not divide (names both), or is unknown (names it).
    """
    ### BEGIN SOLUTION
    shard_shape, num_distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        for unknown in set(names) - set(mesh_shape):
            raise ValueError(f"the mesh has no axis {unknown}")
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide into {parts} parts")
        shard_shape[axis] //= parts
        num_distinct *= parts
    return tuple(shard_shape), num_distinct
    ### END SOLUTION


# %% [markdown] hints="predict_layout"
# - Go through `enumerate(spec)`; make each entry a tuple of names first.
# - An axis is cut into the *product* of its mesh axes' sizes: `math.prod(...)`.
# - The number of distinct blocks is the product of all cuts. Mesh axes that the spec
#   does not name only add replicas.

# %% check="predict_layout" points=2
mesh_shape = {"data": 4, "model": 2}
for shape, spec, expected in (
    ((16, 6), ("data", "model"), ((4, 3), 8)),
    ((16, 6), (None, "model"), ((16, 3), 2)),
    ((16, 6), (("data", "model"),), ((2, 6), 8)),
    ((16, 6), (), ((16, 6), 1)),
    ((3, 2, 8), (None, None, ("model", "data")), ((3, 2, 1), 8)),
):
    seen = observe(predict_layout, shape, mesh_shape, spec)
    likely = "axes that the spec does not name only add replicas"
    expect_close(seen, expected, likely=likely)
uneven = observe(predict_layout, (6, 4), mesh_shape, (("data", "model"),))
expect_error(uneven, "ValueError", mentions=[6, 8])
unknown = observe(predict_layout, (8, 8), mesh_shape, ("rows",))
expect_error(unknown, "ValueError", mentions=["rows"])
### BEGIN HIDDEN TESTS
rng, names = np.random.default_rng(0), ("a", "b", "c")
for _ in range(12):
    sizes = tuple(int(n) for n in rng.permutation([1, 2, 4]))
    order = [str(name) for name in rng.permutation(names)]
    spec = [(None, order[0], tuple(order[:2]))[rng.integers(3)], None, order[2]]
    spec = tuple(spec[: rng.integers(4)])
    shape = tuple(8 * int(n) for n in rng.integers(1, 4, 3))
    found = set(blocks(shape, sizes, names, spec).values())
    shard_shape = tuple(stop - start for start, stop in next(iter(found)))
    seen = observe(predict_layout, shape, dict(zip(names, sizes, strict=True)), spec)
    expect_close(seen, (shard_shape, len(found)))
seen = observe(predict_layout, (5, 9), {"i": 3}, (None, "i"))
expect_close(seen, ((5, 3), 3))
uneven = observe(predict_layout, (5, 7), {"i": 3}, (None, "i"))
expect_error(uneven, "ValueError", mentions=[7, 3])
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Moving, and what it costs
#
# From one sharding to another, devices exchange blocks by the collectives of lesson 2.
# `compiled(f, *arrays)` below reads them off the **compiled** program.
#
# **Predict, then run.** A matrix of 64 KiB lies split by rows over 8 devices. Which move
# costs nothing, which most?


# %%
def compiled(function, *arrays, **options):
    return Compiled(jax.jit(function, **options).lower(*arrays).compile())


mesh = make_mesh((8,), ("i",))
rows, columns, whole = (NamedSharding(mesh, P(*s)) for s in (("i",), (None, "i"), ()))
for name, before, after in (
    ("rows    -> columns", rows, columns),
    ("rows    -> whole", rows, whole),
    ("whole   -> rows", whole, rows),
):
    x = jax.device_put(np.ones((64, 256), np.float32), before)
    moves = compiled(lambda x: x, x, out_shardings=after).collectives
    sent = sum(one.bytes_moved for one in moves) / 1024
    print(f"{name:<20}{sent:4.0f} KiB  ", *(one.kind for one in moves))

# %% [markdown]
# ## 3. Computation follows data
#
# Under `jax.jit` an operation runs where its inputs lie. This lesson's model has `L`
# layers `relu(x @ w1) @ w2`, stacked for `lax.scan`: `w1: (L, W, H)`, `w2: (L, H, W)`.
#
# **Predict, then run.** Parameters whole on every device, the batch split. How does the
# output lie? Which collective does the *gradient* need?


# %%
def mlp(params, x):  # f32[B, W] -> f32[B, W]
    def layer(x, w):
        return jax.nn.relu(x @ w["w1"]) @ w["w2"], None

    return jax.lax.scan(layer, x, params)[0]


def mlp_loss(params, x, y):  # the mean over the whole batch: f32[]
    return jnp.mean((mlp(params, x) - y) ** 2)


def mlp_case(seed, batch, width, hidden, layers=2):  # params, x, y
    rng, f32 = np.random.default_rng(seed), np.float32
    w1 = rng.normal(size=(layers, width, hidden)) * np.sqrt(2 / width)
    w2 = rng.normal(size=(layers, hidden, width)) / np.sqrt(hidden)
    return {"w1": f32(w1), "w2": f32(w2)}, *f32(rng.normal(size=(2, batch, width)))


params, x, _ = mlp_case(0, batch=16, width=4, hidden=6, layers=1)
params, x = jax.device_put(params, whole), jax.device_put(x, rows)
viz.draw_array(jax.jit(mlp)(params, x), "mlp(params, x)")
for one in compiled(jax.grad(mlp_loss), params, x, x).collectives:
    print(one)

# %% [markdown]
# The output is split like the batch. The gradient sums over the batch, so the compiler
# put an all-reduce in. Nothing to forget: `jnp.mean` means the *whole* batch. The
# eightfold gradient of lesson 3 cannot happen. The checks' references:


# %%
def reference_grads(params, x, y):  # one device, NumPy, 64-bit floats
    w1, w2 = np.float64(params["w1"]), np.float64(params["w2"])
    inputs, hidden, g1, g2 = [np.float64(x)], [], 0 * w1, 0 * w2
    for layer in range(len(w1)):
        hidden.append(np.maximum(inputs[-1] @ w1[layer], 0))
        inputs.append(hidden[-1] @ w2[layer])
    back = 2 * (inputs[-1] - y) / y.size
    for layer in reversed(range(len(w1))):
        g2[layer] = hidden[layer].T @ back
        inner = back @ w2[layer].T * (hidden[layer] > 0)
        g1[layer], back = inputs[layer].T @ inner, inner @ w1[layer].T
    return np.mean((inputs[-1] - y) ** 2), {"w1": g1, "w2": g2}


def reference_sgd(params, x, y, lr, num_steps):
    losses = []
    for _ in range(num_steps):
        loss, grads = reference_grads(params, x, y)
        params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        losses.append(loss)
    return params, losses


# %%
def run(step, state, num_steps, *batch):  # for the checks
    losses = []
    for number in range(num_steps):
        state, loss = step(state, *batch)
        losses.append(loss)
        if number % 10 == 9:
            jax.block_until_ready(state)
    return state, losses


def data_parallel_run(params, x, y, lr, num_steps, num_devices):
    mesh = make_mesh((num_devices,), ("data",))
    params = jax.device_put(params, NamedSharding(mesh, P()))
    x, y = jax.device_put((x, y), NamedSharding(mesh, P("data")))
    return run(data_parallel_step, params, num_steps, x, y, lr)


# %% [markdown]
# ### Exercise 4.3: data_parallel_step
#
# `data_parallel_step(params, x, y, lr)` takes one SGD step on `mlp_loss` and returns
# `(params, loss)`, the loss **before** the step. The caller (`data_parallel_run`) has
# placed everything: parameters whole on each device, `x` and `y: (B, W)` split by rows.
#
# - Same numbers as one device with the whole batch.
# - Parameters come out as they went in: whole on every device. Each device computes its
#   own rows only, and sends gradients and loss, nothing else.
# - Compiled **once**, as one program.


# %% exercise="data_parallel_step" minutes=6 difficulty=1
@jax.jit
def data_parallel_step(params, x, y, lr):
    """Takes one SGD step; the arrays' shardings say where.

    Args:
        params: {"w1": f32 (L, W, H), "w2": f32 (L, H, W)}, whole on every device.
        x, y: f32 (B, W), split by rows.
        lr: learning rate, one number.

    Returns:
        (params, loss): whole on every device; the loss before the step, f32 ().
    """
    ### BEGIN SOLUTION
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
    ### END SOLUTION


# %% [markdown] hints="data_parallel_step"
# - Write the step of **one** device that has the whole batch. That is all.
# - `jax.value_and_grad(mlp_loss)(params, x, y)`, then `jax.tree.map(lambda p, g: ...,
#   params, grads)`. No `pmean`: there is no axis name here.

# %% check="data_parallel_step" points=2
params, x, y = mlp_case(1, 64, 6, 24)
expected = reference_sgd(params, x, y, 0.1, 1)
causes = {
    f"the gradient is {times} times too large: it was summed over devices": (
        (reference_sgd(params, x, y, times * 0.1, 1)[0], expected[1])
    )
    for times in (8, 64)
}
own, _ = reference_sgd(params, x[:8], y[:8], 0.1, 1)
causes["each device learned from its own rows only"] = own, expected[1]
seen = observe(data_parallel_run, params, x, y, 0.1, 1, 8, compiled=True)
expect_close(seen, expected, rtol=1e-4, atol=1e-5, mistakes=causes)
expect_layout(seen, '[0]["w1"]', (8,), ("data",), (), "parameters must stay whole")
likely = "the batch was gathered: every device computes all rows"
expect_arrays(seen, never=(64, 24), likely=likely)
once = 7 / 4 * sum(leaf.nbytes for leaf in params.values())  # one all-reduce
expect_moved(seen, at_least=once, at_most=1.05 * once)
seen = observe(data_parallel_run, params, x, y, 0.1, 20, 8)
expect_close(seen, reference_sgd(params, x, y, 0.1, 20), rtol=1e-4, atol=1e-5)
expect_kept_program(seen)
### BEGIN HIDDEN TESTS
for num_devices, batch in ((2, 10), (4, 12), (8, 8)):
    params, x, y = mlp_case(batch, batch, 4, 10, layers=1)
    inputs = (params, x, y, 0.2, 2, num_devices)
    seen = observe(data_parallel_run, *inputs, compiled=True)
    expected = reference_sgd(params, x, y, 0.2, 2)
    expect_close(seen, expected, rtol=1e-4, atol=1e-5)
    for path in ('[0]["w1"]', '[0]["w2"]', "[1][0]"):
        expect_layout(seen, path, (num_devices,), ("data",), ())
    expect_arrays(seen, never=(batch, 10))
    once = 2 * 2 * (num_devices - 1) / num_devices * 4 * 2 * 4 * 10
    expect_moved(seen, at_least=once, at_most=1.2 * once)
    expect_kept_program(observe(data_parallel_run, *inputs))
### END HIDDEN TESTS

# %% [markdown]
# **Moving a pmap program** is mostly deleting:
#
# | with `pmap` | with the sharding API |
# |---|---|
# | params stacked: `(8, ...)` | `device_put(params, P())`: `(...)` |
# | batch reshaped: `(8, B / 8, ...)` | `device_put(batch, P("data"))`: `(B, ...)` |
# | `pmap(step, "i")` | `jit(step)` |
# | `lax.pmean(grads, "i")` | deleted |
# | unreplicate at the end | deleted |
# | BatchNorm by `pmean`, a mask per device | one mean, one mask, of the whole batch |
#
# Side by side, ten steps each:


# %%
def step(params, x, y, sync=lambda tree: tree):
    loss, grads = sync(jax.value_and_grad(mlp_loss)(params, x, y))
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


params, x, y = mlp_case(0, 64, 6, 24)
old = jax.tree.map(lambda leaf: np.stack([leaf] * 8), params)
blocked = x.reshape(8, 8, 6), y.reshape(8, 8, 6)
pmapped = jax.pmap(functools.partial(step, sync=lambda t: jax.lax.pmean(t, "i")), "i")
new, split = jax.device_put(params, whole), jax.device_put((x, y), rows)
jitted = jax.jit(step)
for _ in range(10):
    old, old_loss = pmapped(old, *blocked)
    new, new_loss = jitted(new, *split)
print("pmap: w1", old["w1"].shape, "loss", old_loss.shape)
print("jit:  w1", new["w1"].shape, "loss", new_loss.shape)
print("same loss within 1e-5:", bool(abs(old_loss[0] - new_loss) < 1e-5))

# %% [markdown]
# ## 4. Constraints and axis types
#
# Inside of `jit` you may insist: `jax.lax.with_sharding_constraint(x, sharding)`.
#
# **Predict, then run.** The batch arrives whole on each of 8 devices. How much less does
# a device compute if a constraint splits it?
#
# A mesh axis has a *type*. **Auto**: the compiler decides, your code cannot see the
# layout. **Explicit**: the layout is part of the array's type, `jax.typeof` shows it, and
# JAX refuses what has no clear answer, such as `x @ w` with the contracted axis split on
# both sides. This course uses Auto.

# %%
params, x, y = mlp_case(0, 64, 6, 24)
params, x = jax.device_put((params, x), whole)
constrain = jax.lax.with_sharding_constraint
everything = compiled(mlp, params, x)
share = compiled(lambda params, x: mlp(params, constrain(x, rows)), params, x)
print(f"operations on a device: {everything.flops / share.flops:.0f} times fewer")

for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(kind, kind))
    x = jax.device_put(np.ones((8, 16)), NamedSharding(mesh, P("data", "model")))
    w = jax.device_put(np.ones((16, 4)), NamedSharding(mesh, P("model", None)))
    print(f"{kind.name}: x is {jax.typeof(x)}, x.T is {jax.typeof(x.T)}")
    try:
        print("  x @ w is", jax.typeof(x @ w))
    except Exception as error:
        print(" ", type(error).__name__)
rows = NamedSharding(mesh, P("data", None))
out = jnp.einsum("bk,kn->bn", x, w, out_sharding=rows)
print("  with out_sharding it is", jax.typeof(out))

# %% [markdown]
# ## 5. Tensor parallel
#
# Split the *weights*: `w1` by columns, `w2` by rows, over `"model"`. Then a device
# computes its hidden units from its own weights alone, and ends with a part of a
# **sum**. One all-reduce per block finishes it. The batch is split over `"data"`.

# %% [markdown]
# ### Exercise 4.4: tensor_parallel_mlp
#
# `tensor_parallel_mlp(params, x, mesh_shape)` places `params` on a mesh `("data",
# "model")` of `mesh_shape` and computes `mlp(params, x)`. It returns `(params, y)`.
# `x: (B, W)` arrives on no device in particular.
#
# - `w1` is split along `H`, `w2` along `H`, over `"model"`; `y` along `B` over `"data"`.
# - Each device computes its own rows of its own hidden units: constrain the hidden layer
#   to `P("data", "model")`, the block's output to `P("data", None)`.
# - Nothing but **one** all-reduce per block is sent.


# %% exercise="tensor_parallel_mlp" minutes=12 difficulty=2
def tensor_parallel_mlp(params, x, mesh_shape):
    """Computes the model with weights and batch split.

    Args:
        params: {"w1": f32 (L, W, H), "w2": f32 (L, H, W)}.
        x: f32 (B, W).
        mesh_shape: devices along "data" and along "model".

    Returns:
        (params, y): w1 f32[L, W, H@model], w2 f32[L, H@model, W], y f32[B@data, W].
    """
    ### BEGIN SOLUTION
    mesh = make_mesh(mesh_shape, ("data", "model"))
    specs = {"w1": P(None, None, "model"), "w2": P(None, "model", None)}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
    params = jax.tree.map(jax.device_put, params, shardings)

    def on(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    def block(x, w):
        hidden = on(jax.nn.relu(x @ w["w1"]), "data", "model")
        return on(hidden @ w["w2"], "data", None), None

    return params, jax.lax.scan(block, on(x, "data", None), params)[0]
    ### END SOLUTION


# %% [markdown] hints="tensor_parallel_mlp"
# - `specs = {"w1": P(None, None, "model"), ...}`: the first axis is the layers'.
# - Write `mlp`'s layer again, each line wrapped in `with_sharding_constraint`.
# - Constrain `x` before the scan too, to `P("data", None)`.

# %% check="tensor_parallel_mlp" points=3
params, x, _ = mlp_case(3, 24, 8, 48, layers=3)
names = ("data", "model")


def reference_mlp(params, x):
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        x = np.maximum(np.float64(x) @ w1, 0) @ w2
    return x


for mesh_shape in ((2, 4), (1, 8)):
    seen = observe(tensor_parallel_mlp, params, x, mesh_shape, compiled=True)
    expect_close(seen, (params, reference_mlp(params, x)), rtol=1e-4, atol=1e-5)
    likely = "w1 by columns, w2 by rows: both along H"
    expect_layout(seen, '[0]["w1"]', mesh_shape, names, (None, None, "model"), likely)
    expect_layout(seen, '[0]["w2"]', mesh_shape, names, (None, "model"), likely)
    expect_layout(seen, "[1]", mesh_shape, names, ("data",), "constrain the output")
    data, model = mesh_shape
    whole_hidden = "the hidden layer, or the batch, is whole on a device"
    for shape in {(24 // data, 48), (24, 48 // model)} - {(24 // data, 48 // model)}:
        expect_arrays(seen, never=shape, likely=whole_hidden)
    once = 3 * 2 * (model - 1) / model * 4 * 24 / data * 8  # bytes, for 3 blocks
    likely = "one all-reduce per block, of the output"
    expect_moved(seen, at_least=once, at_most=1.02 * once, likely=likely)
### BEGIN HIDDEN TESTS
params, x, _ = mlp_case(4, 12, 6, 20, layers=2)
for mesh_shape in ((4, 2), (2, 2), (1, 4)):
    seen = observe(tensor_parallel_mlp, params, x, mesh_shape, compiled=True)
    expect_close(seen, (params, reference_mlp(params, x)), rtol=1e-4, atol=1e-5)
    expect_layout(seen, '[0]["w1"]', mesh_shape, names, (None, None, "model"))
    expect_layout(seen, '[0]["w2"]', mesh_shape, names, (None, "model"))
    expect_layout(seen, "[1]", mesh_shape, names, ("data",))
    data, model = mesh_shape
    once = 2 * 2 * (model - 1) / model * 4 * 12 / data * 6
    expect_moved(seen, at_least=once, at_most=1.02 * once)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Axes with a meaning
#
# Large code bases name each array axis by its *meaning*: `w1` is `("layer", "embed",
# "hidden")`, `w2` is `("layer", "hidden", "embed")`, a batch is `("batch", "embed")`. One
# table of **rules** maps meanings to mesh axes. Another table is another layout:
#
# | layout | rules |
# |---|---|
# | data parallel | batch → data |
# | tensor parallel | batch → data, hidden → model |
# | FSDP (section 8) | parameters: embed → data |

# %% [markdown]
# ### Exercise 4.5: logical_to_spec
#
# `logical_to_spec(names, rules)` returns the spec of one array as a plain tuple, an
# entry per name. The **first** rule with the name counts. A name without a rule, and a
# `None` among the names: `None`. A mesh axis that would be used twice in the array:
# `ValueError`, naming it.
#
# `param_specs(tree, rules)` does it for a tree whose leaves are tuples of names.


# %% exercise="logical_to_spec" minutes=9 difficulty=2
def logical_to_spec(names, rules):
    """Translates the names of an array's axes into a spec.

    Args:
        names: per array axis its name or None, a tuple.
        rules: (name, mesh axis, tuple of them or None), the first match counts.

    Returns:
        Per array axis a mesh axis, a tuple of them or None, a tuple.

    Raises:
        ValueError: a mesh axis is used twice; the text names it.
    """
    ### BEGIN SOLUTION
    spec, used = [], []
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            if axis in used:
                raise ValueError(f"{axis} would split {names} twice")
            used.append(axis)
        spec.append(axes)
    return tuple(spec)
    ### END SOLUTION


def param_specs(tree, rules):
    """Translates a tree (dicts, lists) whose leaves are tuples of names."""

    ### BEGIN SOLUTION
    def is_names(node):
        return isinstance(node, tuple)

    return jax.tree.map(lambda n: logical_to_spec(n, rules), tree, is_leaf=is_names)
    ### END SOLUTION


# %% [markdown] hints="logical_to_spec"
# - `next((axes for rule, axes in rules if rule == name), None)` finds the first match.
# - Keep a list of the mesh axes used so far in *this* array.
# - `jax.tree.map(f, tree, is_leaf=lambda node: isinstance(node, tuple))` stops at tuples.

# %% check="logical_to_spec" points=2
rules = (("batch", "data"), ("hidden", "model"), ("batch", "model"), ("embed", None))
seen = observe(logical_to_spec, ("batch", "hidden", "embed", "head"), rules)
expect_close(
    seen, ("data", "model", None, None), likely="the first matching rule counts"
)
pair = (("batch", ("data", "model")), ("hidden", "model"))
expect_close(observe(logical_to_spec, ("batch", None), pair), (("data", "model"), None))
twice = observe(logical_to_spec, ("batch", "hidden"), pair)
expect_error(twice, "ValueError", mentions=["model"])
names = {"w1": ("layer", "embed", "hidden"), "w2": ("layer", "hidden", "embed")}
mixed = (("hidden", "model"), ("embed", "data"))
for rules, w1, w2 in (
    ((("batch", "data"),), (None, None, None), (None, None, None)),
    ((("hidden", "model"),), (None, None, "model"), (None, "model", None)),
    ((("embed", "data"),), (None, "data", None), (None, None, "data")),
    (mixed, (None, "data", "model"), (None, "model", "data")),
):
    expect_close(observe(param_specs, names, rules), {"w1": w1, "w2": w2})
### BEGIN HIDDEN TESTS
rules = (("a", None), ("a", "x"), ("b", ("x", "y")), ("c", "z"), ("d", "z"))
tree = [{"deep": [("a", "b"), ("c",)]}, (), ("b", "c", "e", None)]
specs = [{"deep": [(None, ("x", "y")), ("z",)]}, (), (("x", "y"), "z", None, None)]
expect_close(observe(param_specs, tree, rules), specs)
for names, axis in ((("c", "a", "d"), "z"), (("b", "b"), "x")):
    expect_error(observe(logical_to_spec, names, rules), "ValueError", mentions=[axis])
expect_error(observe(param_specs, [("c", "d")], rules), "ValueError", mentions=["z"])
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Created in place
#
# A model that needs many devices must never exist on one, not even at the start. Its
# training state holds parameters and Adam's two moments of each.
#
# `jax.eval_shape` gives shapes without computing. From them `state_shardings` makes a
# sharding for each leaf: moments lie like their parameter.


# %%
def make_adam():
    return optax.adam(0.003)


def make_state(key, num_layers, width):
    draw = jax.random.normal(key, (2, num_layers, width, width)) / width**0.5
    params = {"w1": draw[0], "w2": jnp.swapaxes(draw[1], 1, 2)}
    return {"params": params, "adam": make_adam().init(params)}


def state_shardings(mesh, state, specs, adam_specs=None):  # state: arrays or shapes
    on = [
        {name: NamedSharding(mesh, P(*spec)) for name, spec in some.items()}
        for some in (specs, adam_specs or specs)
    ]
    like_params = functools.partial(optax.tree_utils.tree_map_params, make_adam())
    scalar = {"transform_non_params": lambda _: NamedSharding(mesh, P())}
    adam = like_params(lambda _, s: s, state["adam"], on[1], **scalar)
    return {"params": on[0], "adam": adam}


def count_whole(key, *arguments):  # for the check: whole weights outside of any jit
    program = jax.make_jaxpr(lambda key: init_sharded(key, *arguments))(key)
    outside = [line for line in program.eqns if "jaxpr" not in line.params]
    made = [out.aval.shape for line in outside for out in line.outvars]
    return made.count((arguments[0], arguments[1], arguments[1]))


# %% [markdown]
# ### Exercise 4.6: init_sharded
#
# `init_sharded(key, num_layers, width, mesh_shape, axis_names, specs)` returns the
# state that `make_state(key, num_layers, width)` makes, each leaf in its layout:
# parameters as `specs` says, Adam's moments alike, the rest whole.
#
# - No device ever builds a whole parameter or moment that `specs` splits.


# %% exercise="init_sharded" minutes=8 difficulty=2
def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    """Creates the state of training straight in its layout.

    Args:
        key: a `jax.random.key`.
        num_layers: number of layers L.
        width: W; w1 and w2 are f32 (L, W, W).
        mesh_shape: devices along each mesh axis.
        axis_names: the names of the mesh's axes.
        specs: {"w1": ..., "w2": ...}, plain tuples.

    Returns:
        {"params": ..., "adam": ...}, as `make_state` makes it, placed.
    """

    ### BEGIN SOLUTION
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(init, out_shardings=shardings)(key)
    ### END SOLUTION


# %% [markdown] hints="init_sharded"
# - `device_put` of a finished state is too late.
# - Inside of a `jit` with `out_shardings` each device draws only its own numbers.
# - `jax.eval_shape(init, key)` gives the shapes for `state_shardings`.

# %% check="init_sharded" points=2
key, names = jax.random.key(3), ("data", "model")
specs = {"w1": (None, None, "model"), "w2": (None, "model", None)}
seen = observe(init_sharded, key, 3, 16, (2, 4), names, specs, compiled=True)
expect_close(seen, make_state(key, 3, 16), rtol=1e-4, atol=1e-6)
states = ('["params"]', '["adam"][0][1]', '["adam"][0][2]')  # the moments mu and nu
for part in states:
    for name, spec in specs.items():
        expect_layout(seen, f'{part}["{name}"]', (2, 4), names, spec)
likely = "make it inside of jax.jit(..., out_shardings=...)"
for whole_shape in ((3, 16, 16), (2, 3, 16, 16)):
    expect_arrays(seen, never=whole_shape, likely=likely)
seen = observe(count_whole, key, 3, 16, (2, 4), names, specs)
headline = f"{seen.value} whole weights or moments are made or moved outside of jit."
expect(seen, seen.value == 0, headline, expected="0", likely=likely)
### BEGIN HIDDEN TESTS
key, specs = jax.random.key(8), {"w1": (None, "i", None), "w2": (None, None, "i")}
seen = observe(init_sharded, key, 3, 16, (4,), ("i",), specs)
expect_close(seen, make_state(key, 3, 16), rtol=1e-4, atol=1e-6)
for part in states:
    for name, spec in specs.items():
        expect_layout(seen, f'{part}["{name}"]', (4,), ("i",), spec)
expect_layout(seen, '["adam"][0][0]', (4,), ("i",), ())
### END HIDDEN TESTS

# %% [markdown]
# **Common mistake: an optimizer state that forgot its layout.** Below, four layers of
# width 1024 on a 2 x 4 mesh, created in place, "embed" over data, "hidden" over model.
# Then Adam's state once more, by `jit` without `out_shardings`. Its zeros depend on no parameter's
# *values*: there is no data to follow.
#
# **Predict, then run.** Where do Adam's 64 MiB go?


# %%
def mib_on(device, tree):
    shards = [s for leaf in jax.tree.leaves(tree) for s in leaf.addressable_shards]
    return sum(s.data.nbytes for s in shards if s.device == device) / 2**20


def weight_specs(embed, hidden):  # the specs, by the meanings of section 6
    return {"w1": (None, embed, hidden), "w2": (None, hidden, embed)}


mesh, key = make_mesh((2, 4), ("data", "model")), jax.random.key(0)
shapes = jax.eval_shape(lambda: make_state(key, 4, 1024))
shardings = state_shardings(mesh, shapes, weight_specs("data", "model"))
create = jax.jit(make_state, static_argnums=(1, 2), out_shardings=shardings)
state = create(key, 4, 1024)
forgotten = jax.jit(make_adam().init)(state["params"])
for name, adam in (("in place", state["adam"]), ("forgotten", forgotten)):
    print(f"{name:<10}", *(f"{mib_on(d, adam):4.0f}" for d in jax.devices()), "MiB")

# %% [markdown]
# ## 8. One program, five layouts
#
# The same model with Adam, a batch of 64, 2 x 4 devices. One function, `train_step`,
# compiled five times. **Only specs change**:
#
# - **data parallel**: parameters and moments whole, the batch over all 8;
# - **ZeRO-1**: the moments split over all 8;
# - **FSDP**: the parameters too; a layer's are gathered for use, then dropped;
# - **tensor parallel**: section 5, the batch over `"data"`;
# - **both**: tensor parallel, and the other axis over `"data"`, as in FSDP.
#
# **Predict, then run.** Parameters take 32 MiB. How much memory does a device need in
# each?


# %%
def train_step(state, x):  # learns to return its input
    loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, x)
    updates, adam = make_adam().update(grads, state["adam"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "adam": adam}, loss


def compile_step(batch, specs, adam_specs=None):  # the program, its inputs' shardings
    mesh = make_mesh((2, 4), ("data", "model"))
    shapes = jax.eval_shape(lambda: make_state(jax.random.key(0), 4, 1024))
    shardings = state_shardings(mesh, shapes, specs, adam_specs)
    state = jax.tree.map(
        lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s),
        shapes,
        shardings,
    )
    rows = NamedSharding(mesh, P(batch))
    x = jax.ShapeDtypeStruct((64, 1024), np.float32, sharding=rows)
    step = jax.jit(train_step, out_shardings=(shardings, None), donate_argnums=0)
    return step.lower(state, x).compile(), (shardings, rows)


# %%
every, bars, notes = ("data", "model"), {}, {}
layouts = {
    "data parallel": (every, weight_specs(None, None)),
    "ZeRO-1": (every, weight_specs(None, None), weight_specs(every, None)),
    "FSDP": (every, weight_specs(every, None)),
    "tensor parallel": ("data", weight_specs(None, "model")),
    "both": ("data", weight_specs("data", "model")),
}
for name, specs in layouts.items():
    program, place = compile_step(*specs)
    num_bytes = program.memory_analysis().argument_size_in_bytes
    params = 8 * math.prod(place[0]["params"]["w1"].shard_shape((4, 1024, 1024)))
    bars[name] = {"parameters": params, "Adam, batch": num_bytes - params}
    moves = Compiled(program).collectives
    sent = sum(one.bytes_moved for one in moves) / 2**20
    notes[name] = f"sends {sent:.1f} MiB: " + ", ".join(sorted({m.kind for m in moves}))
    print(f"{name:<16}{num_bytes / 2**20:5.1f} MiB, {notes[name]}")
viz.draw_memory(bars, "Training state on one device, and what a step sends", notes)
state, loss = program(state, jax.device_put(np.ones((64, 1024), np.float32), place[1]))

# %% [markdown]
# FSDP needs an eighth of the memory and sends twice as much: gathers, forward and
# backward. (A GPU makes its gradients' all-reduce a reduce-scatter, half of it.) With
# both mesh axes in use groups are smaller, and so is the traffic. The last program then
# ran, on the state from above.


# %%
def fsdp_run(params, x, y, num_steps, num_devices):  # for the check
    mesh = make_mesh((num_devices,), ("data",))
    old = {"params": params, "adam": make_adam().init(params)}
    shardings = state_shardings(mesh, old, weight_specs("data", None))
    old = jax.tree.map(jax.device_put, old, shardings)
    rows = jax.device_put((x, y), NamedSharding(mesh, P("data")))
    new, losses = run(fsdp_step(shardings), old, num_steps, *rows)
    traced, moments = isinstance(old["params"]["w1"], jax.core.Tracer), new["adam"][0]
    gone = traced or all(leaf.is_deleted() for leaf in jax.tree.leaves(old))
    return (new["params"], moments.mu, moments.nu, losses), gone


def reference_adam(params, x, y, num_steps):
    mu, nu, losses = {"w1": 0, "w2": 0}, {"w1": 0, "w2": 0}, []
    for n in range(1, num_steps + 1):
        loss, grads = reference_grads(params, x, y)
        losses.append(loss)
        for k, g in grads.items():
            mu[k], nu[k] = 0.9 * mu[k] + 0.1 * g, 0.999 * nu[k] + 0.001 * g**2
            root = np.sqrt(nu[k] / (1 - 0.999**n)) + 1e-8
            params = params | {k: params[k] - 0.003 * mu[k] / (1 - 0.9**n) / root}
    return params, mu, nu, losses


# %% [markdown]
# ### Exercise 4.7: fsdp_step
#
# `fsdp_step(shardings)` returns a compiled function `(state, x, y) -> (state, loss)`: one
# step with `make_adam()` on `mlp_loss`, the loss before the step. `state` is `{"params":
# ..., "adam": ...}`; `shardings`, a tree like it, splits weights and moments over
# `"data"`. `x` and `y` come split by rows.
#
# - The new state lies as `shardings` says: an eighth per device, on eight.
# - Same numbers as data parallel; each device computes its own rows, and sends its share
#   of the weights twice, of the gradients once.
# - The old state's memory is given away (*donated*): after a step its arrays are gone.


# %% exercise="fsdp_step" minutes=12 difficulty=3
def fsdp_step(shardings):
    """Makes the compiled training step for a sharded state.

    Args:
        shardings: a `NamedSharding` for each leaf of the state.

    Returns:
        (state, x, y) -> (state, loss), compiled by `jax.jit`; x, y: f32 (B, W).
    """

    ### BEGIN SOLUTION
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)
    ### END SOLUTION


# %% [markdown] hints="fsdp_step"
# - The step itself is `train_step` above, with `y`. FSDP is in the shardings alone.
# - `jax.jit` takes `out_shardings=(shardings, None)`: `None` leaves the loss to it.
# - `donate_argnums=0` gives the first argument's memory away.

# %% check="fsdp_step" points=3
params, x, y = mlp_case(5, 32, 16, 40)
seen = observe(fsdp_run, params, x, y, 1, 8, compiled=True)
close = {"rtol": 1e-3, "atol": 1e-5}
expect_close(seen, (reference_adam(params, x, y, 1), True), **close)
kept = "out_shardings: without them the compiler chooses, and may keep weights whole"
for part in ("[0][0]", "[0][1]", "[0][2]"):  # the weights, Adam's mu and nu
    expect_layout(seen, f'{part}["w1"]', (8,), ("data",), (None, "data", None), kept)
    expect_layout(seen, f'{part}["w2"]', (8,), ("data",), (None, None, "data"), kept)
likely = "the batch was gathered: every device computes all rows"
expect_arrays(seen, never=(32, 40), likely=likely)
num_bytes = sum(leaf.nbytes for leaf in params.values())
# Weights twice, forward and backward, and gradients: an all-reduce is two rounds.
expect_moved(seen, at_most=1.1 * 4 * 7 / 8 * num_bytes)
seen = observe(fsdp_run, params, x, y, 20, 8)
likely = "donate the state: donate_argnums=0"
headline = "Arrays of the old state are still there after the step."
expect_shapes(seen, (reference_adam(params, x, y, 20), True))
expect(seen, seen.value[1], headline, expected="all gone", likely=likely)
expect_close(seen, (reference_adam(params, x, y, 20), True), **close)
### BEGIN HIDDEN TESTS
for num_devices, layers in ((4, 1), (2, 3)):
    params, x, y = mlp_case(6, 12, 8, 20, layers=layers)
    seen = observe(fsdp_run, params, x, y, 2, num_devices, compiled=True)
    expect_close(seen, (reference_adam(params, x, y, 2), True), **close)
    for part in ("[0][0]", "[0][1]", "[0][2]"):
        split = (None, "data", None)
        expect_layout(seen, f'{part}["w1"]', (num_devices,), ("data",), split)
        split = (None, None, "data")
        expect_layout(seen, f'{part}["w2"]', (num_devices,), ("data",), split)
    expect_arrays(seen, never=(12, 20))
### END HIDDEN TESTS

# %% [markdown]
# ## 9. When to drop to shard_map
#
# Where the compiler's choice is not yours, write the collectives yourself, by `shard_map`
# inside of the `jit`: for a ring, a pipeline, or where `compiled(...)` shows a collective
# that you do not want.

# %% [markdown]
# ### Exercise 4.8: sharded_matmul
#
# A stretch exercise. `sharded_matmul(a, b, num_devices)` multiplies `a: (M, K)` and `b:
# (K, N)` by `jax.shard_map` on the first `num_devices` devices. The **contraction** `K`
# is split; the result, `(M, N)`, comes out split by rows.
#
# - One reduce-scatter, and nothing else is sent.
# - `K` or `M` does not divide: `ValueError`, naming it and the number of devices.


# %% exercise="sharded_matmul" minutes=8 difficulty=3
def sharded_matmul(a, b, num_devices):
    """Multiplies matrices whose common axis is split.

    Args:
        a: f32 (M, K).
        b: f32 (K, N).
        num_devices: D.

    Returns:
        a @ b, f32 (M, N), split by rows over D devices.

    Raises:
        ValueError: K or M does not divide by D; the text names it, and D.
    """
    ### BEGIN SOLUTION
    for size in a.shape:
        if size % num_devices:
            raise ValueError(f"{size} does not divide by {num_devices}")

    def multiply(a_block, b_block):
        part = a_block @ b_block  # f32[M, N], a part of the sum over K
        return jax.lax.psum_scatter(part, "i", tiled=True)

    mesh, specs = make_mesh((num_devices,), ("i",)), (P(None, "i"), P("i", None))
    mapped = jax.shard_map(multiply, mesh=mesh, in_specs=specs, out_specs=P("i", None))
    return jax.jit(mapped)(a, b)
    ### END SOLUTION


# %% [markdown] hints="sharded_matmul"
# - `in_specs`: `a` by columns, `b` by rows. Each device's product is a part of the sum.
# - `jax.lax.psum_scatter(part, "i", tiled=True)` sums the parts, and leaves each device
#   its rows: `out_specs=P("i", None)`.

# %% check="sharded_matmul" points=3
rng = np.random.default_rng(8)
a, b = np.float32(rng.normal(size=(16, 24))), np.float32(rng.normal(size=(24, 5)))
product = np.float64(a) @ b
own = np.concatenate(
    [
        (np.float64(a)[:, 3 * d : 3 * d + 3] @ b[3 * d : 3 * d + 3])[2 * d : 2 * d + 2]
        for d in range(8)
    ]
)
causes = {
    "the parts were not summed": own,
    "every device had all of K, and the copies were summed": 8 * product,
}
seen = observe(sharded_matmul, a, b, 8, traced=True)
expect_close(seen, product, rtol=1e-4, atol=1e-5, mistakes=causes)
expect_layout(seen, "", (8,), ("i",), ("i", None))
expect_collectives(seen, {"reduce-scatter": 1})
for m, k, wrong_size in ((16, 12, 12), (12, 24, 12)):
    uneven = observe(sharded_matmul, a[:m, :k], b[:k], 8)
    expect_error(uneven, "ValueError", mentions=[wrong_size, 8])
### BEGIN HIDDEN TESTS
for num_devices in (2, 4):
    a, b = a[:12, :8], b[:8, :3]
    seen = observe(sharded_matmul, a, b, num_devices, traced=True)
    expect_close(seen, np.float64(a) @ b, rtol=1e-4, atol=1e-5)
    expect_layout(seen, "", (num_devices,), ("i",), ("i", None))
    expect_collectives(seen, {"reduce-scatter": 1})
uneven = observe(sharded_matmul, a[:10], b, 4)
expect_error(uneven, "ValueError", mentions=[10, 4])
### END HIDDEN TESTS

# %% [markdown]
# ## 10. How to check what the compiler did
#
# - **Where does it lie?** `viz.draw_array`, `x.addressable_shards`.
# - **What is sent?** The collectives of the compiled program, in bytes.
# - **What does it need?** `program.memory_analysis()` and `.cost_analysis()`, for one
#   device, before anything runs.
# - **What takes the time?** On real devices, `jax.profiler.trace(directory)` tells.

# %% [markdown]
# ## Recap
#
# - Mesh + spec = sharding. Code sees whole arrays; computation follows data.
# - The compiler inserts collectives. Memory and traffic are yours to check.
# - Constraints and `out_shardings` fix what inputs leave open.
# - Data parallel, ZeRO-1, FSDP, tensor parallel: one program, other specs.
# - Create large states inside of `jit`, with `out_shardings`.

# %% [markdown]
# ## Three questions
#
# **1. `x` is `f32[16, 8]` on a mesh `data=4, model=2` with `P("model")`. What does a
# device hold?**
#
# <details><summary>f32[4, 8]</summary>
#
# The spec names `"model"`, which has two devices, not `"data"`.
#
# </details>
# <details><summary>f32[8, 8], with four replicas of each block</summary>
#
# Right. Axis 0 is cut in two; the four along `"data"` hold the same.
#
# </details>
# <details><summary>f32[8, 4]</summary>
#
# The first entry belongs to axis 0. Axis 1 has none: whole.
#
# </details>

# %% [markdown]
# **2. `jax.jit(optimizer.init)(params)`, with split parameters. Where is Adam's state?**
#
# <details><summary>Split like the parameters</summary>
#
# Zeros depend on no value: there is no data to follow.
#
# </details>
# <details><summary>Whole, on one device</summary>
#
# Right. Section 7 measured it. `out_shardings` is the cure.
#
# </details>
# <details><summary>Whole on every device</summary>
#
# Not even that: the other devices hold nothing.
#
# </details>

# %% [markdown]
# **3. You move from data parallel to FSDP on 8 devices. Per step...**
#
# <details><summary>memory falls to about an eighth, traffic grows</summary>
#
# Right. Weights are gathered when needed, forward and backward.
#
# </details>
# <details><summary>memory and traffic fall to about an eighth</summary>
#
# Somebody has to send the seven eighths that a device does not keep.
#
# </details>
# <details><summary>losses change a little</summary>
#
# It is no approximation: the same step, up to rounding.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [JAX on parallel programming](https://docs.jax.dev/en/latest/sharded-computation.html).
# - [Flax on many devices](https://flax.readthedocs.io/en/latest/guides/flax_gspmd.html):
#   this model, and rules as in section 6. As one program here:
#   `solutions/references/dot_relu_dot.py`.
# - [How to Scale Your Model](https://jax-ml.github.io/scaling-book/): when which layout
#   pays.
#
# **Next**: lesson 5, the whole pipeline, with checkpoints that change layout.

# %% scorecard=true
