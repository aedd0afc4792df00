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
# **Common mistake: a mesh larger than the machine.** Some tutorials reshape *four*
# devices to `(4, 2)`. **Predict, then run.** Which of the three works?


# %%
import functools
import math

import optax
from coursekit.compiled_program import CompiledProgram
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def make_mesh(shape, names):  # of the first devices; section 4 explains the types
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))


for name, build in {
    "4 devices as (4, 2)": lambda: np.array(jax.devices()[:4]).reshape(4, 2),
    "8 devices as (4, 2)": lambda: make_mesh((4, 2), ("data", "model")),
    "8 devices as (4, 4)": lambda: make_mesh((4, 4), ("data", "model")),
}.items():
    try:
        print(name, "is fine:", build().size)
    except ValueError as error:
        print(name, "is a", type(error).__name__)
draw_mesh(make_mesh((4, 2), ("data", "model")))

# %% [markdown]
# Four devices do not fill a 4 x 2 grid, nor eight a 4 x 4 one.
#
# **Predict, then run.** On the mesh in the picture, a weight `w: (W, H)` is split by
# columns over `"model"` alone. What does each device hold? And of a `stack` of matrices?

# %%
mesh = make_mesh((4, 2), ("data", "model"))
x = np.arange(64, dtype=np.float32).reshape(16, 4)
x = jax.device_put(x, NamedSharding(mesh, P("data", "model")))
draw_array(x, 'x, P("data", "model"):')
w = jax.device_put(np.ones((4, 8), np.float32), NamedSharding(mesh, P(None, "model")))
draw_array(w, 'w, P(None, "model"):')
stack = np.ones((4, 2, 4), np.float32)
stack = jax.device_put(stack, NamedSharding(mesh, P("data", None, "model")))
draw_array(stack, 'stack, P("data", None, "model"):')

# %% [markdown]
# Devices 0, 2, 4, 6 stand at `model 0` and hold the same half of `w`: a mesh axis that the
# spec does not name leaves *replicas* (hatched). Of the stack a device holds half a
# matrix. Entries missing at a spec's end count as `None`; `P()` replicates everything.
# Each picture shows one `jax.Array`, without `pmap`'s device axis.

# %% [markdown]
# ### Exercise 4.1: make_mesh_and_place
#
# `make_mesh_and_place(x, shape, axis_names, spec)` builds a mesh of `shape` from the
# **first** devices, in order, and places `x` on it. `spec` is a plain tuple.
#
# - Too few devices: `ValueError`, naming both numbers.
# - A name in `spec` that the mesh lacks: `ValueError`, naming it.


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
# - Needed: `math.prod(shape)` devices. There are `jax.device_count()`.
# - `NamedSharding` refuses unknown names with the error that is asked for.


# %% check="make_mesh_and_place" points=1
x = np.arange(128, dtype=np.float32).reshape(8, 16)
for shape, names, spec in (
    ((4, 2), ("data", "model"), ("data", "model")),
    ((2, 4), ("rows", "columns"), ("columns", "rows")),
    ((4, 2), ("data", "model"), (None, ("model", "data"))),
    ((2, 2), ("data", "model"), (None, "model")),
):
    causes = {
        "the spec was not used: x is whole on every device": (),
        "the first entry of spec belongs to the array's first axis": spec[::-1],
    }
    for traced in (True, False):
        seen = observe(make_mesh_and_place, x, shape, names, spec, traced=traced)
        expect_close(seen, x)
        expect_layout(seen, {"x": ("", spec)}, shape, names, mistakes=causes)
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
    expect_layout(seen, {"x": ("", spec)}, shape, names)
many = observe(make_mesh_and_place, x, (3, 5), ("a", "b"), ())
expect_error(many, "ValueError", mentions=[15, 8])
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 4.2: predict_layout
#
# `predict_layout(shape, mesh_shape, spec)` returns `(shard_shape, num_distinct)`: the
# shape of one device's block, and how many *different* blocks there are, in pure Python.
# `mesh_shape` is a dict, say `{"data": 4, "model": 2}`; `spec` as in 4.1, perhaps shorter
# than `shape`.
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
# - Distinct blocks: the product of all cuts.

# %% check="predict_layout" points=2
mesh_shape = {"data": 4, "model": 2}
for shape, sizes, spec, expected in (
    ((16, 6), mesh_shape, ("data", "model"), ((4, 3), 8)),
    ((16, 6), mesh_shape, (None, "model"), ((16, 3), 2)),
    ((16, 6), {"rows": 2, "columns": 3}, (None, "columns"), ((16, 2), 3)),
    ((16, 6), mesh_shape, (("data", "model"),), ((2, 6), 8)),
    ((16, 6), mesh_shape, (), ((16, 6), 1)),
    ((3, 2, 8), mesh_shape, (None, None, ("model", "data")), ((3, 2, 1), 8)),
):
    seen = observe(predict_layout, shape, sizes, spec)
    replicas = "axes that the spec does not name only add replicas"
    causes = {replicas: (expected[0], math.prod(sizes.values()))}
    tuples = any(isinstance(entry, tuple) for entry in spec)
    likely = "a tuple of names cuts by the product of their sizes" if tuples else ""
    expect_close(seen, expected, mistakes=causes, likely=likely)
    expect(seen, type(seen.value[0]) is tuple, "The block's shape is no tuple.")
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
    sharding = NamedSharding(make_mesh(sizes, names), P(*spec))
    found = {str(part) for part in sharding.devices_indices_map(shape).values()}
    seen = observe(predict_layout, shape, dict(zip(names, sizes, strict=True)), spec)
    expect_close(seen, (sharding.shard_shape(shape), len(found)))
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
# **Predict, then run.** A matrix of 64 KiB lies on 8 devices, split or whole. Which
# move costs nothing, which most?


# %%
def compiled(function, *arrays, **options):
    return CompiledProgram(jax.jit(function, **options).lower(*arrays).compile())


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
    kinds = ", ".join(one.kind for one in moves)
    print(f"{name:<20}a device sends {sent:2.0f} KiB  {kinds}")
print("whole -> rows: each has its rows already. rows -> whole: 8 KiB go to 7 others.")

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
draw_array(jax.jit(mlp)(params, x), "mlp(params, x)")
for one in compiled(jax.grad(mlp_loss), params, x, x).collectives:
    print(one)

# %% [markdown]
# The output is split like the batch. The gradient sums over the batch, so the compiler
# put an all-reduce in. `jnp.mean` means the *whole* batch: the eightfold gradient of
# lesson 3 cannot happen.


# %%
def run(step, state, num_steps, *batch):  # for the checks
    losses = []
    for _ in range(num_steps):
        old, (state, loss) = state, step(state, *batch)
        losses.append(loss)
    return state, losses, old


def data_parallel_run(params, x, y, lr, num_steps, num_devices):
    mesh = make_mesh((num_devices,), ("data",))
    params = jax.device_put(params, NamedSharding(mesh, P()))
    x, y = jax.device_put((x, y), NamedSharding(mesh, P("data")))
    params, losses, _ = run(data_parallel_step, params, num_steps, x, y, lr)
    return {"params": params, "losses": losses}


def count_whole(key, *arguments):  # for the check: whole weights outside of any jit
    program = jax.make_jaxpr(lambda key: init_sharded(key, *arguments))(key)
    outside = [line for line in program.eqns if "jaxpr" not in line.params]
    made = [out.aval.shape for line in outside for out in line.outvars]
    return made.count((arguments[0], arguments[1], arguments[1]))


# %% [markdown]
# ### Exercise 4.3: data_parallel_step
#
# `data_parallel_step(params, x, y, lr)` takes one SGD step on `mlp_loss` and returns
# `(params, loss)`, the loss **before** the step. The caller (`data_parallel_run`) has
# placed everything: parameters whole on each device, `x` and `y: (B, W)` split by rows.
#
# - Same numbers as one device with the whole batch; parameters come out whole.
# - Each device computes its own rows, and sends gradients and loss, nothing else.
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
# - Write the step of **one** device that has the whole batch.
# - `jax.value_and_grad(mlp_loss)(params, x, y)`, then `jax.tree.map(lambda p, g: ...,
#   params, grads)`. No `pmean`: `jit` binds no axis name.


# %% helpers="data_parallel_step"
def count_operations(params, x, y, lr):  # what a step runs one by one
    program = jax.make_jaxpr(lambda *inputs: data_parallel_step(*inputs, lr))
    return len(program(params, x, y).eqns)


def reference_run(params, x, y, lr, num_steps):  # what data_parallel_run should return
    params, losses = reference_sgd(params, x, y, lr, num_steps, reference_relu_layers)
    return {"params": params, "losses": losses}


# %% check="data_parallel_step" points=2
params, x, y = mlp_case(1, 32, 6, 24)
seen = observe(count_operations, params, x, y, 0.05)
likely = "@jax.jit above the whole function: the update belongs to the program"
expect(seen, seen.value == 1, "The step is not one compiled program.", likely=likely)
expected, large = (reference_run(params, x, y, lr, 1) for lr in (0.05, 0.4))
later = reference_run(params, x, y, 0.05, 2)["losses"][1:]
own = reference_run(params, x[:4], y[:4], 0.05, 1)["params"]
causes = {
    "the gradient is 8 times too large: it was summed over devices": large,
    "each device learned from its own rows only": expected | {"params": own},
    "the loss is the one after the step": expected | {"losses": later},
}
seen = observe(data_parallel_run, params, x, y, 0.05, 1, 8, compiled=True)
expect_close(seen, expected, rtol=1e-4, atol=1e-5, mistakes=causes)
expect_layout(seen, {"w1": ('["params"]["w1"]', ())}, (8,), ("data",))
expect_arrays(seen, never=(32, 24), likely="every device computes all rows")
once = 7 / 4 * sum(leaf.nbytes for leaf in params.values())  # one all-reduce
expect_moved(seen, at_least=once, at_most=1.05 * once)
seen = observe(data_parallel_run, params, x, y, 0.05, 3, 4)
expect(seen, seen.num_compiles < 3, "Each step compiles anew.", likely="call jit once")
### BEGIN HIDDEN TESTS
for num_devices, batch in ((2, 10), (4, 12), (8, 8)):
    params, x, y = mlp_case(batch, batch, 4, 10, layers=1)
    inputs = (params, x, y, 0.2, 2, num_devices)
    seen = observe(data_parallel_run, *inputs, compiled=True)
    expected = reference_run(params, x, y, 0.2, 2)
    expect_close(seen, expected, rtol=1e-4, atol=1e-5)
    for path in ('["params"]["w1"]', '["params"]["w2"]', '["losses"][0]'):
        expect_layout(seen, {path: (path, ())}, (num_devices,), ("data",))
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
# | params stacked: `(8, ...)` | `device_put(params, whole)`: `(...)` |
# | batch reshaped: `(8, B / 8, ...)` | `device_put(batch, rows)`: `(B, ...)` |
# | `pmap(step, "i")` | `jit(step)` |
# | `lax.pmean(grads, "i")` | deleted |
# | unreplicate at the end | deleted |
# | BatchNorm by `pmean` | one mean, of the whole batch |
#
# `whole` and `rows` are shardings from section 2. Ten steps, side by side:


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
# A mesh axis has a *type*. **Auto**: the compiler decides; inside of `jit` your code
# cannot see the layout. **Explicit**, the default in newer versions: the layout is part
# of the array's type, `jax.typeof` shows it, and JAX refuses what has no clear answer,
# such as `a @ b` with the contracted axis split on both sides. This course uses Auto.

# %%
everywhere, batch = jax.device_put(mlp_case(0, 64, 6, 24)[:2], whole)
constrain = jax.lax.with_sharding_constraint
all_rows = compiled(mlp, everywhere, batch)
own_rows = compiled(lambda p, x: mlp(p, constrain(x, rows)), everywhere, batch)
times = all_rows.flops / own_rows.flops
print(f"A device computes {times:.0f} times less: its own rows, not all.")

for kind in (AxisType.Auto, AxisType.Explicit):
    typed_mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(kind, kind))
    split = functools.partial(NamedSharding, typed_mesh)
    a = jax.device_put(np.ones((8, 16)), split(P("data", "model")))
    b = jax.device_put(np.ones((16, 4)), split(P("model", None)))
    print(f"{kind.name}: a is {jax.typeof(a)}, a.T is {jax.typeof(a.T)}")
    try:
        print("  a @ b is", jax.typeof(a @ b))
    except Exception as error:
        print(" ", type(error).__name__)
out = jnp.einsum("bk,kn->bn", a, b, out_sharding=split(P("data", None)))
print("  with out_sharding it is", jax.typeof(out))

# %% [markdown]
# ## 5. Tensor parallel
#
# Split the *weights*: `w1` by columns, `w2` by rows, over `"model"`. Then a device
# computes its hidden units from its own weights alone, and ends with a part of a
# **sum**. One all-reduce per layer finishes it.

# %% [markdown]
# ### Exercise 4.4: tensor_parallel_mlp
#
# `tensor_parallel_mlp(params, x, mesh_shape)` places `params` on a mesh `("data",
# "model")` of `mesh_shape`, computes `mlp(params, x)` and returns `(params, y)`. `x:
# (B, W)` arrives without any layout.
#
# - Both weights are split along `H` over `"model"`, `y` along `B` over `"data"`.
# - Each device computes its own rows of its own hidden units: constrain the hidden layer
#   to `P("data", "model")`, each layer's output to `P("data", None)`. The compiler may
#   find this by itself; constraints make sure.
# - Nothing but **one** all-reduce per layer is sent.


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

    def layer(x, w):
        hidden = on(jax.nn.relu(x @ w["w1"]), "data", "model")
        return on(hidden @ w["w2"], "data", None), None

    return params, jax.lax.scan(layer, on(x, "data", None), params)[0]
    ### END SOLUTION


# %% [markdown] hints="tensor_parallel_mlp"
# - `specs = {"w1": P(None, None, "model"), ...}`: the first axis is the layers'.
# - Write `mlp`'s layer again, each line wrapped in `with_sharding_constraint`.
# - Constrain `x` before the scan too, to `P("data", None)`.

# %% check="tensor_parallel_mlp" points=3
params, x, _ = mlp_case(3, 24, 8, 48, layers=3)


def reference_mlp(params, x):
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        x = np.maximum(np.float64(x) @ w1, 0) @ w2
    return x


split = {"w1": ('[0]["w1"]', (None, None, "model"))}
split["w2"] = '[0]["w2"]', (None, "model")
for data, model in ((2, 4), (1, 8)):
    grid = (data, model), ("data", "model")
    seen = observe(tensor_parallel_mlp, params, x, (data, model), compiled=True)
    expect_close(seen, (params, reference_mlp(params, x)), rtol=1e-4, atol=1e-5)
    expect_layout(seen, split, *grid, likely="w1 by columns, w2 by rows: both along H")
    expect_layout(seen, {"y": ("[1]", ("data",))}, *grid, likely="constrain the output")
    whole_hidden = "the hidden layer, or the batch, is whole on a device"
    for shape in {(24 // data, 48), (24, 48 // model)} - {(24 // data, 48 // model)}:
        expect_arrays(seen, never=shape, likely=whole_hidden)
    once = 3 * 2 * (model - 1) / model * 4 * 24 / data * 8  # bytes, for 3 layers
    likely = "one all-reduce per layer, of the output"
    expect_moved(seen, at_least=once, at_most=1.02 * once, likely=likely)
### BEGIN HIDDEN TESTS
params, x, _ = mlp_case(4, 12, 6, 20, layers=2)
for data, model in ((4, 2), (2, 2), (1, 4)):
    grid = (data, model), ("data", "model")
    seen = observe(tensor_parallel_mlp, params, x, (data, model), compiled=True)
    expect_close(seen, (params, reference_mlp(params, x)), rtol=1e-4, atol=1e-5)
    expect_layout(seen, split | {"y": ("[1]", ("data",))}, *grid)
    once = 2 * 2 * (model - 1) / model * 4 * 12 / data * 6
    expect_moved(seen, at_least=once, at_most=1.02 * once)
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Axes with a meaning
#
# Large code bases name each array axis by its *meaning*: `W` is `"embed"`, `H` is
# `"hidden"`. Then `w1` is `("layer", "embed", "hidden")`, and a batch is `("batch",
# "embed")`. One table of **rules** maps meanings to mesh axes. Another table is another
# layout:
#
# | layout | rules |
# |---|---|
# | data parallel | batch → data |
# | tensor parallel | batch → data, hidden → model |
# | FSDP (section 8) | batch → data; for parameters embed → data |
#
# FSDP's second rule is for parameters alone: with both, a batch would use `data` twice.

# %% [markdown]
# ### Exercise 4.5: logical_to_spec
#
# `logical_to_spec(names, rules)` returns the spec of one array as a plain tuple, an
# entry per name. The **first** rule with the name counts. A name without a rule, and a
# `None` among the names: `None`. A mesh axis that would be used twice in the array:
# `ValueError`, naming that axis.
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
rules = (("batch", "data"), ("embed", None), ("batch", "x"), ("embed", "y"))
seen = observe(logical_to_spec, ("batch", "embed", "head"), rules)
likely = "the first rule with the name counts, also one that says None"
expect_close(seen, ("data", None, None), likely=likely)
expect(seen, type(seen.value) is tuple, "The spec is a list, not a tuple.")
pair = (("batch", ("data", "model")), ("hidden", "model"))
expect_close(observe(logical_to_spec, ("batch", None), pair), (("data", "model"), None))
for names in (("batch", "hidden"), ("hidden", "batch")):
    twice = observe(logical_to_spec, names, pair)
    expect_error(twice, "ValueError", mentions=["model"])
w1, w2 = ("layer", "embed", "hidden"), ("layer", "hidden", "embed")
for rules, embed, hidden in (
    ((("batch", "data"),), None, None),
    ((("hidden", "model"),), None, "model"),
    ((("embed", "data"),), "data", None),
    ((("hidden", "model"), ("embed", "data")), "data", "model"),
):
    specs = {"w1": (None, embed, hidden), "w2": (None, hidden, embed)}
    seen = observe(param_specs, {"mlp": {"w1": w1, "w2": w2}, "bias": [w1[1:]]}, rules)
    expect_close(seen, {"mlp": specs, "bias": [(embed, hidden)]})
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
# training state is the parameters plus two Adam moments for each, `mu` and `nu`.
#
# `jax.eval_shape` gives shapes without computing. From them `state_shardings` makes a
# sharding for each leaf: Optax's `tree_map_params` treats moments like their parameter,
# `transform_non_params` the rest.


# %%
import itertools


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
    rest = {"transform_non_params": lambda _: NamedSharding(mesh, P())}
    adam = like_params(lambda _, s: s, state["adam"], on[1], **rest)
    return {"params": on[0], "adam": adam}


def state_layout(specs, path=""):  # for the checks
    adam = {"Adam's mu of ": '["adam"][0][1]', "Adam's nu of ": '["adam"][0][2]'}
    pairs = itertools.product({"": '["params"]', **adam}.items(), specs.items())
    return {text + k: (f'{path}{part}["{k}"]', v) for (text, part), (k, v) in pairs}


# %% [markdown]
# ### Exercise 4.6: init_sharded
#
# `init_sharded(key, num_layers, width, mesh_shape, axis_names, specs)` returns the
# state that `make_state(key, num_layers, width)` makes, each leaf in its layout:
# parameters as `specs` says, Adam's moments alike, the rest whole on every device.
#
# - All is made inside of `jit`; no device ever builds a whole parameter or moment that
#   `specs` splits.


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
key, grid = jax.random.key(3), ((2, 4), ("data", "model"))
specs = {"w1": (None, "data", "model"), "w2": (None, "model", None)}
likely = "make all of it inside of jax.jit(..., out_shardings=...)"
seen = observe(count_whole, key, 3, 16, *grid, specs)
headline = "Whole weights or moments are made or moved outside of jit."
expect(seen, seen.value == 0, headline, likely=likely)
seen = observe(init_sharded, key, 3, 16, *grid, specs, compiled=True)
expect_close(seen, make_state(key, 3, 16), rtol=1e-4, atol=1e-6)
forgot = "out_shardings for Adam's state too: zeros depend on no parameter's values"
where = state_layout(specs) | {"Adam's count": ('["adam"][0][0]', ())}
expect_layout(seen, {name: where[name] for name in specs}, *grid)
expect_layout(seen, where, *grid, likely=forgot)
for whole_shape in ((3, 16, 16), (2, 3, 16, 16)):
    expect_arrays(seen, never=whole_shape, likely=likely)
### BEGIN HIDDEN TESTS
key, specs = jax.random.key(8), {"w1": (None, "i", None), "w2": (None, None, "i")}
seen = observe(init_sharded, key, 3, 16, (4,), ("i",), specs)
expect_close(seen, make_state(key, 3, 16), rtol=1e-4, atol=1e-6)
count = {"Adam's count": where["Adam's count"]}
expect_layout(seen, state_layout(specs) | count, (4,), ("i",))
### END HIDDEN TESTS

# %% [markdown]
# **Common mistake: an optimizer state that forgot its layout.** Below, four layers of
# width 1024 on a 2 x 4 mesh, created in place, "embed" over data, "hidden" over model.
# Then Adam's state once more, by `jit` without `out_shardings`.
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
print("Zeros depend on no parameter's values: inside of jit they follow no data.")
print("Outside, make_adam().init(params) keeps the layout, but for Adam's count.")

# %% [markdown]
# ## 8. One program, five layouts
#
# The same model with Adam, a batch of 64, 2 x 4 devices. One function, `train_step`,
# compiled five times. **Only specs change**:
#
# - **data parallel**: parameters and moments whole, the batch over all 8;
# - **ZeRO-1** (zero redundancy optimizer): the moments split over all 8;
# - **FSDP** (fully sharded data parallel): parameters too; a layer's are gathered for
#   use, then dropped;
# - **tensor parallel**: section 5, the batch over `"data"`;
# - **both**: tensor parallel, and the other axis as in FSDP.
#
# **Predict, then run.** Parameters take 32 MiB. How much state does a device hold in
# each? Which sends most?


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
    # Donated: the new state takes the old one's memory.
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
    moves = CompiledProgram(program).collectives
    sent = sum(one.bytes_moved for one in moves) / 2**20
    notes[name] = f"sends {sent:.1f} MiB: " + ", ".join(sorted({m.kind for m in moves}))
    print(f"{name:<16}a device holds {num_bytes / 2**20:4.1f} MiB, {notes[name]}")
draw_memory(bars, "State on one device, and what one device sends per step", notes)
state, loss = program(state, jax.device_put(np.ones((64, 1024), np.float32), place[1]))

# %% [markdown]
# FSDP holds an eighth of the *state* (a step's own intermediate values come on top) and
# sends twice data parallel's bytes: weights are gathered forward and backward. ZeRO-1
# all-reduces gradients, 56 MiB, and gathers new weights, 28. (A GPU's reduce-scatter
# would halve the 56.) A tensor parallel device reduces a quarter of the gradients, and
# 64 rows of activations are small; with a large batch they count.


# %%
def fsdp_run(params, x, y, specs, num_steps, num_devices):  # for the check
    mesh = make_mesh((num_devices,), ("data",))
    old = {"params": params, "adam": make_adam().init(params)}
    step = fsdp_step(state_shardings(mesh, old, weight_specs("data", None)))
    old = jax.tree.map(jax.device_put, old, state_shardings(mesh, old, specs))
    rows = jax.device_put((x, y), NamedSharding(mesh, P("data")))
    new, losses, old = run(step, old, num_steps, *rows)
    old = [a for a in jax.tree.leaves(old) if not isinstance(a, jax.core.Tracer)]
    return {"state": new, "losses": losses, "donated": all(a.is_deleted() for a in old)}


def reference_fsdp(params, x, y, num_steps):
    def grads(params):
        return reference_relu_layers(params, x, y)

    params, mu, nu, losses = reference_adamw(params, [0.003] * num_steps, grads)
    state = {"params": params, "adam": ((np.int32(num_steps), mu, nu), ())}
    return {"state": state, "losses": losses, "donated": True}


# %% [markdown]
# ### Exercise 4.7: fsdp_step
#
# `fsdp_step(shardings)` returns a function `(state, x, y) -> (state, loss)`, compiled
# once: a step with `make_adam()` on `mlp_loss`, the loss before the step. `state` is
# `{"params": ..., "adam": ...}`; `shardings`, a tree like it, splits weights and moments
# over `"data"`; `x` and `y` come split by rows.
#
# - The new state lies as `shardings` says, however the old one lay.
# - Same numbers as data parallel; each device computes its own rows.
# - It gathers a layer's weights for use and drops them, forward and again backward.
#   Besides it sends one all-reduce's worth of gradients.
# - The old state is *donated*: after a step its arrays are gone.


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
# - `jax.jit` takes `out_shardings=(shardings, None)` and, to donate, `donate_argnums=0`.

# %% check="fsdp_step" points=3
params, x, y = mlp_case(5, 32, 16, 40)
one = observe(fsdp_run, params, x, y, weight_specs("data", None), 1, 8, compiled=True)
four = observe(fsdp_run, params, x, y, weight_specs(None, None), 4, 8)
expected = reference_fsdp(params, x, y, 4)
expect_shapes(four, expected)
where = state_layout(weight_specs("data", None), '["state"]')
likely = "out_shardings=(shardings, None): else the compiler chooses"
expect_layout(four, where, (8,), ("data",), likely=likely)
count = four.value["state"]["adam"][0][0]
expect(four, count == 4, "Adam forgets its state.", likely='go on from state["adam"]')
expect(four, four.value["donated"], "The old state remains.", likely="donate_argnums=0")
later = reference_fsdp(params, x, y, 5)["losses"][1:]
causes = {"the loss is the one after the step": expected | {"losses": later}}
expect_close(four, expected, rtol=1e-3, atol=1e-5, mistakes=causes)
expect(four, four.num_compiles < 4, "Each step compiles anew.", likely="call jit once")
expect_arrays(one, never=(32, 40), likely="every device computes all rows")
gathers = sum(m.bytes_moved for m in one.collectives if m.kind == "all-gather")
headline = "Whole weights are kept from the forward to the backward pass."
expect(one, gathers > 17_000, headline, likely="mlp_loss gathers layer by layer")
expect_moved(one, at_most=1.1 * 4 * 7 / 8 * 10_240)  # weights twice, an all-reduce
### BEGIN HIDDEN TESTS
for num_devices, layers, embed in ((4, 1, None), (2, 3, "data")):
    params, x, y = mlp_case(6, 12, 8, 20, layers=layers)
    comes = weight_specs(embed, None if embed else "data")
    seen = observe(fsdp_run, params, x, y, comes, 2, num_devices, compiled=True)
    expect_close(seen, reference_fsdp(params, x, y, 2), rtol=1e-3, atol=1e-5)
    expect_layout(seen, where, (num_devices,), ("data",))
expect_arrays(seen, never=(12, 20))
gathers = sum(m.bytes_moved for m in seen.collectives if m.kind == "all-gather")
num_bytes = 2 * sum(leaf.nbytes for leaf in params.values())  # in two steps
expect(seen, gathers > 0.9 * 2 / 2 * num_bytes, headline)
### END HIDDEN TESTS

# %% [markdown]
# ## 9. When to drop to shard_map
#
# Where the compiler's choice is not yours, write the collectives yourself, by `shard_map`
# inside of the `jit`: for a ring, a pipeline, or against an unwanted collective. The
# function sees one block, as under `pmap`:
#
# ```python
# def total(x_block):
#     return jax.lax.psum(x_block.sum(), "data")
#
# summed = jax.shard_map(total, mesh=mesh, in_specs=P("data"), out_specs=P())
# jax.jit(summed)(x)
# ```

# %% [markdown]
# ### Exercise 4.8: sharded_matmul
#
# A stretch exercise. `sharded_matmul(a, b, num_devices)` multiplies `a: (M, K)` and `b:
# (K, N)` by `jax.shard_map` on the first `num_devices` devices. The **contraction** `K`
# is split; the result, `(M, N)`, comes out split by rows.
#
# - One reduce-scatter, and nothing else is sent.
# - `K` or `M` does not divide: `ValueError`, naming its size and the number of devices
#   (JAX's own will do).


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
        ValueError: K or M does not divide by D; the text names its size, and D.
    """
    ### BEGIN SOLUTION

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
for num_devices in (8, 4):
    grid = np.float64(a).reshape(num_devices, 16 // num_devices, num_devices, -1)
    own = np.einsum("dmdk,dkn->dmn", grid, b.reshape(num_devices, -1, 5))
    causes = {"the parts were not summed": own.reshape(16, 5)}
    twice = "every device had all of K, and the copies were summed"
    causes[twice] = num_devices * product
    seen = observe(sharded_matmul, a, b, num_devices, traced=True)
    expect_close(seen, product, rtol=1e-4, atol=1e-5, mistakes=causes)
    expect_layout(seen, {"the result": ("", ("i", None))}, (num_devices,), ("i",))
    by_hand = "" if seen.collectives else "only what shard_map's function sends counts"
    expect_collectives(seen, {"reduce-scatter": 1}, likely=by_hand)
for m, k, wrong_size in ((16, 12, 12), (12, 24, 12)):
    uneven = observe(sharded_matmul, a[:m, :k], b[:k], 8)
    expect_error(uneven, "ValueError", mentions=[wrong_size, 8])
### BEGIN HIDDEN TESTS
for num_devices in (2, 4):
    a, b = a[:12, :8], b[:8, :3]
    seen = observe(sharded_matmul, a, b, num_devices, traced=True)
    expect_close(seen, np.float64(a) @ b, rtol=1e-4, atol=1e-5)
    expect_layout(seen, {"the result": ("", ("i", None))}, (num_devices,), ("i",))
    expect_collectives(seen, {"reduce-scatter": 1})
uneven = observe(sharded_matmul, a[:10], b, 4)
expect_error(uneven, "ValueError", mentions=[10, 4])
### END HIDDEN TESTS

# %% [markdown]
# ## 10. How to check what the compiler did
#
# - **Where does it lie?** `draw_array`, `x.addressable_shards`.
# - **What is sent?** `jax.jit(f).lower(...).compile().as_text()` names the collectives;
#   the course's `compiled` counts their bytes.
# - **What does it need?** The compiled program's `memory_analysis()` and
#   `cost_analysis()`, for one device, before anything runs.
# - **What takes the time?** On real devices, `jax.profiler.trace(directory)` tells.

# %% [markdown]
# ## Recap
#
# - Mesh + spec = sharding. Code sees whole arrays; computation follows data.
# - The compiler inserts collectives. Memory and traffic are yours to check.
# - Constraints and `out_shardings` fix what inputs leave open, in new states too.
# - One program, other specs: data parallel, ZeRO-1, FSDP, tensor parallel.

# %% [markdown]
# ## Three questions
#
# **1. `x` is `f32[16, 8]` on a mesh `data=4, model=2` with `P("model")`. What does a
# device hold?**
#
# <details><summary>f32[4, 8]</summary>
#
# The spec names `"model"`, with two devices, not `"data"`.
#
# </details>
# <details><summary>f32[8, 8], with four replicas of each block</summary>
#
# Right. Axis 0 is cut in two; the four along `"data"` hold the same.
#
# </details>
# <details><summary>f32[8, 4]</summary>
#
# The first entry belongs to axis 0.
#
# </details>

# %% [markdown]
# **2. `jax.jit(optimizer.init)(params)`, with split parameters. Where is Adam's state?**
#
# <details><summary>Split like the parameters</summary>
#
# Outside of `jit` it would be. Inside, zeros follow no data.
#
# </details>
# <details><summary>Whole, on one device</summary>
#
# Right. The cure is `out_shardings`.
#
# </details>
# <details><summary>Whole on every device</summary>
#
# The other devices hold nothing.
#
# </details>

# %% [markdown]
# **3. You move from data parallel to FSDP on 8 devices. Per step...**
#
# <details><summary>the state takes about an eighth, traffic grows</summary>
#
# Right. Weights are gathered, forward and backward.
#
# </details>
# <details><summary>state and traffic fall to about an eighth</summary>
#
# What a device does not keep, others must send.
#
# </details>
# <details><summary>losses change a little</summary>
#
# It is the same step, up to rounding.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [JAX on parallel programming](https://docs.jax.dev/en/latest/sharded-computation.html).
# - [Flax on many devices](https://flax.readthedocs.io/en/latest/guides/flax_gspmd.html):
#   this model, with section 6's rules; here `solutions/references/dot_relu_dot.py`.
# - [How to Scale Your Model](https://jax-ml.github.io/scaling-book/): when which layout
#   pays.
#
# **Next**: [lesson 5](05_full_pipeline.ipynb), the whole pipeline.

# %% scorecard=true
