# %% [markdown]
# # Lesson 4. The sharding API
#
# COLAB_BADGE
#
# Until now you wrote what *one device* does. Now you write what *all* compute together,
# and say where arrays lie; the compiler puts the collectives in. Values come out right in
# any case; this lesson measures memory and traffic.
#
# **After this lesson you can**
#
# - place any array on any mesh;
# - train data parallel, and compute tensor parallel, on the same model;
# - check what the compiler sends;
# - (second part) name axes by meaning, and choose a layout by rules.
#
# **You need** lessons 1 to 3. **Time**: about 90 minutes, with a pause; names for axes,
# FSDP, layouts as types and `shard_map` follow in a second part of 126.

# %% setup=true

# %% [markdown]
# ## 1. Mesh, spec, sharding
#
# - A **mesh** arranges devices in a grid and names its axes.
# - A **spec** `P(...)` has an entry per *array* axis: a mesh axis to split it over, a
#   tuple of them (the first cuts first), or `None`.
# - A **sharding** is both: `NamedSharding(mesh, spec)`. `jax.device_put(x, sharding)`
#   places `x`.


# %%
import functools
import math

import optax
from coursekit.compiled_program import CompiledProgram
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def make_mesh(shape, names):  # section 9 explains the types
    # The first devices, in order; TPUs may be arranged by their network.
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))


mesh = make_mesh((4, 2), ("data", "model"))
draw_mesh(mesh)

# %% [markdown]
# **Predict, then run.** On this mesh, `w: (4, 8)` lies by `P(None, "model")`. What does
# each device hold? And of `stack: (4, 2, 4)`, by `P("data", None, "model")`?

# %%
x = np.arange(64, dtype=np.float32).reshape(16, 4)
x = jax.device_put(x, NamedSharding(mesh, P("data", "model")))
draw_array(x, 'x, P("data", "model"):')
w = jax.device_put(np.ones((4, 8), np.float32), NamedSharding(mesh, P(None, "model")))
draw_array(w, 'w, P(None, "model"):')
stack = np.ones((4, 2, 4), np.float32)
stack = jax.device_put(stack, NamedSharding(mesh, P("data", None, "model")))
draw_array(stack, 'stack, P("data", None, "model"):')

# %% [markdown]
# Devices 0, 2, 4, 6 stand at `model 0` and hold the same half of `w`: a mesh axis that
# the spec does not name leaves *replicas* (hatched). Entries missing at a spec's end
# count as `None`; `P()` replicates everything. Each picture shows one `jax.Array`.

# %% [markdown]
# **In every exercise below**
#
# - [arguments stay] a function leaves its arguments as they are, and alive, except where
#   they are to be *donated*;
# - [nothing is remembered] a call computes from its own arguments, whatever was called
#   before.
#
# Unless an exercise says more, arrays come unsplit, from the host or as `jnp.ones` makes
# them; numbers are finite, no axis is empty. Of several errors, any will do. **JAX can
# trace it**: it also runs inside a `jax.jit`, so no NumPy function, `float()` or `if`
# meets an array's values.

# %% [markdown]
# ### Exercise 4.1: make_mesh_and_place
#
# [on a mesh of the first devices] `make_mesh_and_place(x, shape, axis_names, spec)`
# builds a mesh of `shape` from the **first** devices, in order as in the picture, and
# places `x` on it. `spec` is a plain tuple; each axis of `x` divides by its number of
# parts. Any kind of mesh will do.
#
# - [values and dtype stay] The numbers and the dtype of `x`, of 32 bits at most, stay.
# - [both numbers are named] Too few devices: `ValueError`, naming how many are needed and
#   how many there are.
# - [the unknown name is named] A name in `spec` that the mesh lacks: `ValueError`, naming
#   it.


# %% exercise="make_mesh_and_place" minutes=8 difficulty=1
def make_mesh_and_place(x, shape, axis_names, spec):
    """Places an array on a mesh of the first devices.

    Args:
        x: array (...), of the host or on the first device.
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
# - `make_mesh` above takes the first devices. `P(*spec)` makes the spec.
# - Needed: `math.prod(shape)` devices. There are `jax.device_count()`. Compare them
#   yourself: JAX's own error does not name the product.
# - `NamedSharding` refuses unknown names with the error that is asked for.

# %% check="make_mesh_and_place"

# %% [markdown]
# ### Exercise 4.2: predict_layout
#
# [the block's shape and how many differ] `predict_layout(shape, mesh_shape, spec)`
# returns `(shard_shape, num_distinct)`: the shape of one device's block, a tuple, and
# how many *different* blocks there are. `mesh_shape` is a dict, say `{"data": 4,
# "model": 2}`; `spec` is as in 4.1, each mesh axis at most once.
#
# - [missing entries are None] `spec` may be shorter than `shape`.
# - [no device is needed] The mesh may be larger than this machine: no device is asked.
# - [size and parts are named] An axis that does not divide: `ValueError`, naming its size
#   and the number of parts.
# - [the unknown axis is named] An unknown mesh axis: `ValueError`, naming it.


# %% exercise="predict_layout" minutes=11 difficulty=1
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

# %% check="predict_layout"

# %% [markdown]
# ## 2. Moving, and what it costs
#
# `compiled(f, *arrays)` reads the collectives of a move off the **compiled** program. In
# plain JAX, `jax.jit(f).lower(...).compile().as_text()` names them.
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

# %% [markdown]
# From whole to rows, each has its rows already. From rows to whole, 8 KiB go to 7 others.

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
# The output is split like the batch. The gradient is a sum over the batch, so the
# compiler put an all-reduce in. `jnp.mean` means the *whole* batch: no eightfold gradient
# as in lesson 3.

# %% [markdown]
# ### Exercise 4.3: data_parallel_step
#
# [one step of SGD] `data_parallel_step(params, x, y, lr)` takes one SGD step on
# `mlp_loss` and returns `(params, loss)`, the loss **before** the step: the numbers of
# one device with the whole batch. The caller has placed parameters whole on each device
# of a mesh, `x` and `y` by rows.
#
# - [parameters and loss come out whole] Parameters and loss come out whole on each of
#   these devices.
# - [only gradients and loss are sent] Each device computes its own rows. Each number of
#   gradients and loss is all-reduced once; nothing else is sent.
# - [one compiled program] The step is one compiled program, which JAX can trace.
# - [compiled once] Another learning rate (a Python `float`) or other values do not
#   compile it anew.


# %% exercise="data_parallel_step" minutes=9 difficulty=1
@jax.jit
def data_parallel_step(params, x, y, lr):
    """Takes one SGD step; the arrays' shardings say where.

    Args:
        params: {"w1": f32 (L, W, H), "w2": f32 (L, H, W)}, whole on every device.
        x, y: f32 (B, W), split by rows.
        lr: learning rate, a float.

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

# %% check="data_parallel_step"

# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above again: what follows needs their names.

# %% [markdown]
# ## 4. Constraints
#
# Inside of `jit` you may insist: `jax.lax.with_sharding_constraint(x, sharding)`.
#
# **Predict, then run.** The batch arrives whole on each of 8 devices. What part does a
# device compute if a constraint splits it? And with `device_put` inside `jit`?


# %%
def rows_by(fix):
    return lambda params, x: mlp(params, fix(x, rows))


everywhere, batch = jax.device_put(mlp_case(0, 64, 6, 24)[:2], whole)
all_rows = compiled(mlp, everywhere, batch)
for fix in (jax.lax.with_sharding_constraint, jax.device_put):
    times = all_rows.flops / compiled(rows_by(fix), everywhere, batch).flops
    print(f"{fix.__name__}: a device computes 1/{times:.0f} of it")

# %% [markdown]
# A constraint splits, and the computation follows. **Common mistake**: `device_put`
# inside `jit` splits nothing here.
#
# ## 5. Tensor parallel
#
# Split the *weights*: `w1` by columns, `w2` by rows, over `"model"`. A device computes
# its hidden units from its own weights, and ends with a part of a **sum**: one
# all-reduce per layer.

# %% [markdown]
# ### Exercise 4.4: tensor_parallel_mlp
#
# [the layers' result] `tensor_parallel_mlp(params, x, mesh_shape)`, which is called
# inside `jit`, computes `mlp(params, x)` on a mesh `("data", "model")` of the first
# devices and returns `(params, y)`. `params` and `x: (B, W)` come unsplit. `B` divides by
# the devices along `"data"`, `H` by those along `"model"`.
#
# - [weights by H and y by B] Both weights come out split along `H` over `"model"`, `y`
#   along `B` over `"data"`.
# - [own rows of own hidden units] Each device computes its own rows of its own hidden
#   units. The compiler may find this by itself; to make sure, constrain the hidden layer
#   to `P("data", "model")`, each layer's output to `P("data", None)`.
# - [one all-reduce per layer] Nothing but **one** all-reduce per layer is sent (with
#   one device along `"model"` nothing).


# %% exercise="tensor_parallel_mlp" minutes=15 difficulty=2
def tensor_parallel_mlp(params, x, mesh_shape):
    """Computes the model with weights and batch split, inside `jit`.

    Args:
        params: {"w1": f32 (L, W, H), "w2": f32 (L, H, W)}.
        x: f32 (B, W).
        mesh_shape: devices along "data" and along "model".

    Returns:
        (params, y): w1 f32[L, W, H@model], w2 f32[L, H@model, W], y f32[B@data, W].
    """
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def on(x, *spec):  # a constraint: on(x, "data", None)
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    ### BEGIN SOLUTION
    specs = {"w1": (None, None, "model"), "w2": (None, "model", None)}

    def layer(x, w):
        hidden = on(jax.nn.relu(x @ w["w1"]), "data", "model")
        return on(hidden @ w["w2"], "data", None), None

    params = {name: on(params[name], *spec) for name, spec in specs.items()}
    return params, jax.lax.scan(layer, on(x, "data", None), params)[0]
    ### END SOLUTION


# %% [markdown] hints="tensor_parallel_mlp"
# - Constrain the weights first: `w1` to `P(None, None, "model")`, since its first axis is
#   the layers'. Inside of `jit`, `device_put` splits nothing.
# - Write `mlp`'s layer again: `on(jax.nn.relu(x @ w["w1"]), "data", "model")`, then the
#   second product in the same way, by `"data", None`.
# - Constrain `x` before the scan too, to `P("data", None)`.

# %% check="tensor_parallel_mlp"

# %% [markdown]
# ## Recap
#
# - Mesh + spec = sharding. Computation follows data.
# - The compiler inserts collectives; memory and traffic are yours to check.
# - A constraint decides where otherwise the compiler would.

# %% [markdown]
# ## Three questions
#
# **1. `x` is `f32[16, 8]` on a mesh `data=4, model=2` with `P("model")`. What does a
# device hold?**
#
# <details><summary>f32[4, 8]</summary>
#
# `"model"` has two devices.
#
# </details>
# <details><summary>f32[8, 8], with four replicas of each block</summary>
#
# Right. Those along `"data"` hold the same.
#
# </details>
# <details><summary>f32[8, 4]</summary>
#
# The first entry belongs to axis 0.
#
# </details>

# %% [markdown]
# **2. Parameters whole on each of 8 devices, the batch split. What does `jit` make of the
# gradient of a mean over the batch?**
#
# <details><summary>It puts an all-reduce in; the gradient is that of one device</summary>
#
# Right. It computes what the program says, wherever arrays lie.
#
# </details>
# <details><summary>It puts an all-reduce in; the gradient is 8 times as large</summary>
#
# `jnp.mean` divides by all rows, not by a device's.
#
# </details>
# <details><summary>Each device has its own gradient until you call <code>pmean</code></summary>
#
# An array has one value; `jit` binds no axis name.
#
# </details>

# %% [markdown]
# **3. `w1` is split by columns, `w2` by rows. Why both?**
#
# <details><summary>The hidden layer is never sent: one all-reduce per layer does</summary>
#
# Right. What a device computes of it is what its part of `w2` needs.
#
# </details>
# <details><summary>Splitting one of them would give wrong values</summary>
#
# Values come out right in any layout; the traffic differs.
#
# </details>
# <details><summary>So that nothing is sent</summary>
#
# Each device ends with a part of a sum.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [JAX on parallel programming](https://docs.jax.dev/en/latest/sharded-computation.html).
# - [Flax on many devices](https://flax.readthedocs.io/en/latest/guides/flax_gspmd.html):
#   this model; here `solutions/references/dot_relu_dot.py`.
# - [How to Scale Your Model](https://jax-ml.github.io/scaling-book/).
#
# **Next**: [lesson 5](05_full_pipeline.ipynb).

# %% [markdown]
# ## Going further
#
# The first part ends here. The second, 126 minutes with a pause before section 9, moves
# a `pmap` program, and adds what large models need: axes with a meaning, FSDP, states
# created in place, layouts as types, and `shard_map`. Its five exercises count like all
# others; two bonuses at its end, 53 minutes with their text, come on top.

# %% [markdown]
# ## Then and now
#
# | then | now |
# |---|---|
# | `pjit`, `xmap` | `jax.jit`, `jax.shard_map` |
# | `in_axis_resources=` | `in_shardings=` |
# | `with mesh:` | `jax.set_mesh(mesh)` |
# | `create_device_mesh`, then `Mesh` | `jax.make_mesh` |
# | `ShardedDeviceArray`, `GlobalDeviceArray` | `jax.Array` |
# | `PmapSharding`, `PositionalSharding` | `NamedSharding` |
# | `device_put_sharded`, `device_put_replicated` | `jax.device_put` |

# %% [markdown]
# **Moving a pmap program** is mostly deleting:
#
# | with `pmap` | with the sharding API |
# |---|---|
# | params stacked: `(8, ...)` | `device_put(params, whole)`: `(...)` |
# | batch reshaped: `(8, B / 8, ...)` | `device_put(batch, rows)`: `(B, ...)` |
# | `pmap(step, "i")` | `jit(step)` |
# | `lax.pmean(grads, "i")` | deleted |
#
# `whole` and `rows` are section 2's. Lesson 3's perceptron, 256 rows of 10 numbers, 50
# steps:


# %%
def step(params, x, y, sync=lambda tree: tree):
    def loss(params):
        hidden = jnp.tanh(x @ params["w1"] + params["b1"])
        return jnp.mean(((hidden @ params["w2"])[:, 0] + params["b2"] - y) ** 2)

    loss, grads = sync(jax.value_and_grad(loss)(params))
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss


rng = np.random.default_rng(0)
w1, w2 = rng.normal(size=(10, 32)) / 10**0.5, rng.normal(size=(32, 1)) / 32**0.5
params = jax.tree.map(
    np.float32, {"w1": w1, "b1": np.zeros(32), "w2": w2, "b2": np.zeros(1)}
)
x = np.float32(rng.normal(size=(256, 10)))
y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] / 2

# %%
old = jax.tree.map(lambda leaf: np.stack([leaf] * 8), params)
blocked = x.reshape(8, 32, 10), y.reshape(8, 32)
pmapped = jax.pmap(functools.partial(step, sync=lambda t: jax.lax.pmean(t, "i")), "i")
new, split = jax.device_put(params, whole), jax.device_put((x, y), rows)
jitted, losses = jax.jit(step), []
for _ in range(50):
    old, old_loss = pmapped(old, *blocked)
    new, new_loss = jitted(new, *split)
    losses.append((np.asarray(old_loss)[0], np.asarray(new_loss)))
for n in (0, 25, 49):
    print(f"step {n:2}: loss by pmap {losses[n][0]:.3f}, by jit {losses[n][1]:.3f}")
print("w1 of pmap:", old["w1"].shape, " of jit:", new["w1"].shape)

# %% [markdown]
# ## 6. Axes with a meaning
#
# Large code bases name each array axis by its *meaning*: `w1` is `("layer", "embed",
# "hidden")`, a batch `("batch", "embed")`. A table of **rules** maps meanings to mesh
# axes:
#
# | layout | rules |
# |---|---|
# | data parallel | batch → data |
# | tensor parallel | batch → data, hidden → model |
# | FSDP (section 8) | batch → data; a second table, for parameters: embed → data |
#
# In one table, `"data"` would split a batch twice: it has an axis `"embed"`, too. Where
# nothing else uses `"model"`, section 8 splits over `("data", "model")` instead of
# `"data"`: over all devices.

# %% [markdown]
# ### Exercise 4.5: logical_to_spec
#
# [an entry per name] `logical_to_spec(names, rules)` returns the spec of one array, a
# plain tuple with an entry per name: what the rule with that name says, as it stands. A
# tuple `("data",)` stays a tuple.
#
# - [the first rule counts] The **first** rule with the name counts, also one that says
#   `None`.
# - [without a rule it is None] A name without a rule, and a `None` among the names:
#   `None`.
# - [no mesh axis is used twice] A mesh axis that would be used twice in the array:
#   `ValueError`, naming that axis.
# - [a tree of arrays] `param_specs(tree, rules)` does it, by one table, for each array
#   of a tree: dicts and lists in each other, whose leaves are tuples of names.


# %% exercise="logical_to_spec" minutes=13 difficulty=2
def logical_to_spec(names, rules):
    """Translates the names of an array's axes into a spec.

    Args:
        names: per array axis its name or None, a tuple.
        rules: pairs (name, axes), the first counts; name: a string; axes: a mesh axis,
            a tuple of one or more different ones, or None.

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

# %% check="logical_to_spec"

# %% [markdown]
# ## 7. Created in place
#
# A model that needs many devices must never exist on one. Its training state: parameters
# and two Adam moments of each, `mu` and `nu`.
#
# `jax.eval_shape` gives shapes without computing. From them `state_shardings` makes a
# sharding for each leaf: Optax's `tree_map_params` treats moments like their parameter.


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
    rest = {"transform_non_params": lambda _: NamedSharding(mesh, P())}
    adam = like_params(lambda _, s: s, state["adam"], on[1], **rest)
    return {"params": on[0], "adam": adam}


# %% [markdown]
# ### Exercise 4.6: init_sharded
#
# [the state of make_state] `init_sharded(key, num_layers, width, mesh_shape, axis_names,
# specs)` returns the state that `make_state(key, num_layers, width)` makes, on a mesh of
# the first devices.
#
# - [each leaf in its layout] Parameters lie as `specs` says, both moments of each in the
#   parameter's own layout, the rest whole on every device.
# - [never whole on a device] Parameters and moments are made inside `jit`, one or
#   several; JAX can trace it. No device builds all numbers of an array that `specs`
#   splits.


# %% exercise="init_sharded" minutes=16 difficulty=2
def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    """Creates the state of training straight in its layout.

    Args:
        key: a `jax.random.key`, of the default kind.
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
# - Inside of a `jit` with `out_shardings` each device draws a part, never all.
# - With `init = lambda key: make_state(key, num_layers, width)`:
#   `jax.eval_shape(init, key)` gives the shapes for `state_shardings`. Numbers passed as
#   arguments would be traced.

# %% check="init_sharded"

# %% [markdown]
# **Common mistake: an optimizer state that forgot its layout.** Four layers of width
# 1024, created in place; then Adam's state once more, by `jit` without `out_shardings`.
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
# Zeros depend on no parameter's values: on Auto axes, in `jit`, they follow no data.
# Outside of it `make_adam().init(params)` keeps the layout, but for Adam's count.

# %% [markdown]
# ## 8. One program, five layouts
#
# One function, `train_step`, compiled five times for 2 x 4 devices. **Only specs
# change**:
#
# - **data parallel**: parameters and moments whole, the batch over all 8;
# - **ZeRO-1** (zero redundancy optimizer): the moments split over all 8;
# - **FSDP** (fully sharded data parallel): parameters too; a layer's are gathered for
#   use, then dropped;
# - **tensor parallel**: section 5, the batch over `"data"`;
# - **both**: tensor parallel; besides, the weights' axis `W` over `"data"`.
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
    memory = program.memory_analysis()
    held = memory.argument_size_in_bytes
    weights = 8 * math.prod(place[0]["params"]["w1"].shard_shape((4, 1024, 1024)))
    bars[name] = {"parameters": weights, "Adam, batch": held - weights}
    bars[name]["temporary"] = memory.temp_size_in_bytes
    moves = CompiledProgram(program).collectives
    notes[name] = f"sends {sum(one.bytes_moved for one in moves) / 2**20:.1f} MiB"
    kinds = ", ".join(sorted({one.kind for one in moves}))
    print(f"{name:<16}holds {held / 2**20:4.1f} MiB, {notes[name]}: {kinds}")
draw_memory(bars, "Memory of one device, and what it sends per step", notes)

# %% [markdown]
# FSDP holds an eighth of the *state*; a step's temporaries come on top. An all-reduce of
# the gradients sends 56 MiB, a gather of the weights 28. Data parallel needs the first
# alone, ZeRO-1 both, FSDP one gather more, since it gathers forward and backward: 112 MiB
# (84 with a GPU's reduce-scatter).
#
# `lax.scan` compiles one layer, a Python loop all of them: with 48, about four times as
# long.

# %% [markdown]
# ### Exercise 4.7: fsdp_step
#
# [one step of Adam] `fsdp_step(shardings)` returns a step with `make_adam()` on
# `mlp_loss`, which JAX can trace; the loss is the one before it. `shardings` splits
# weights along `W` over `"data"`, moments along `W` or `H`.
#
# - [compiled once] It compiles once for each old layout.
# - [lies as shardings say] The new state lies as `shardings` says, however the old one
#   lay.
# - [own rows] If the old state was sharded so already, each device computes its own rows.
# - [layer by layer] Then each layer's weights are gathered for use and dropped, forward
#   and backward, and each gradient and the loss is all-reduced or reduce-scattered once.
#   Nothing else is sent, except what moments along `H` need.
# - [the old state is gone] Its program *donates* the old state: at least what lay like
#   the new is gone.


# %% exercise="fsdp_step" minutes=16 difficulty=3
def fsdp_step(shardings):
    """Makes the compiled training step for a sharded state.

    Args:
        shardings: a `NamedSharding` for each leaf of the state.

    Returns:
        (state, x, y) -> (state, loss), compiled by `jax.jit`; x, y: f32 (B, W), split by
            rows.
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
# - The step itself is `train_step` above, with `y`: FSDP is in the shardings, and in
#   `mlp`'s `lax.scan`. (In a Python loop, gathered weights may stay.)
# - `jax.jit` takes `out_shardings=(shardings, None)` and, to donate, `donate_argnums=0`.

# %% check="fsdp_step"

# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above again: what follows needs their names.

# %% [markdown]
# ## 9. Explicit axes: layouts in types
#
# A mesh axis has a *type*. **Auto**, so far: the compiler decides; inside `jit` code
# sees no layout. **Explicit**, newer `jax.make_mesh`'s default (not `Mesh(...)`'s): the
# layout is part of an array's type.
#
# - `jax.set_mesh(mesh)` makes a mesh current: a spec alone says where.
# - `jax.typeof(x)` shows the type; results' types follow.
# - `reshard(x, spec)` moves; `out_sharding=` decides where JAX asks.
# - `auto_axes(f, out_sharding=...)`: inside `f` the compiler decides.
#
# **Predict, then run.** Which line is refused?

# %%
from jax.sharding import auto_axes, reshard  # newer JAX has jax.reshard, too

explicit = (AxisType.Explicit,) * 2
rising = auto_axes(lambda a: a.cumsum(axis=1), out_sharding=P("data", "model"))
with jax.set_mesh(jax.make_mesh((4, 2), ("data", "model"), axis_types=explicit)):
    a = reshard(np.ones((8, 16), np.float32), P("data", "model"))
    b = reshard(np.ones((16, 4), np.float32), P("model", None))
    for name, run in {
        "a": lambda: a,
        "a.T": lambda: a.T,
        "a.sum(0)": lambda: a.sum(0),
        "a @ b": lambda: a @ b,
        "a @ b, out_sharding": lambda: jnp.matmul(a, b, out_sharding=P("data", None)),
        "reshard(a, ...)": lambda: reshard(a, P(None, "data")),
        "auto_axes(cumsum)": lambda: rising(a),
        "zeros_like in jit": lambda: jax.jit(jnp.zeros_like)(a),
    }.items():
        try:
            print(f"{name:<25}{jax.typeof(run())}")
        except Exception as error:
            print(f"{name:<25}{type(error).__name__}")

# %% [markdown]
# `a @ b` contracts an axis split on both sides, and JAX asks where the sum shall lie. The
# zeros follow `a`'s type: section 7's mistake cannot happen. On Explicit axes
# `with_sharding_constraint` only asserts.

# %% [markdown]
# ### Exercise 4.8: explicit_mlp
#
# [the layers' result] `explicit_mlp(params, x)` computes `mlp(params, x)` as 4.4 does, in
# types. It is called inside `jit`, on a mesh that is set, with Explicit axes `"data"`
# and `"model"`. `w1: f32[L, W, H@model]`, `w2: f32[L, H@model, W]`; `B` divides by the
# devices along `"data"`.
#
# - [y lies by rows] It returns `y: f32[B@data, W]`.
# - [x may lie in any way] `x: f32 (B, W)` may be split in any way, or not at all.
# - [own rows of own hidden units] The hidden layer is `f32[B@data, H@model]`.
# - [one all-reduce per layer] Nothing is sent but **one** all-reduce per layer (with one
#   device along `"model"` none is needed), and what one `reshard` of `x` into `y`'s
#   layout sends.
#
# `auto_axes` and `jax.shard_map` may be used.


# %% exercise="explicit_mlp" minutes=13 difficulty=2
def explicit_mlp(params, x):
    """Computes the model with weights and batch split, on Explicit axes.

    Args:
        params: {"w1": f32[L, W, H@model], "w2": f32[L, H@model, W]}.
        x: f32 (B, W), in any layout.

    Returns:
        y: f32[B@data, W].
    """
    ### BEGIN SOLUTION
    rows = P("data", None)

    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])  # f32[B@data, H@model]
        return jnp.matmul(hidden, w["w2"], out_sharding=rows), None

    return jax.lax.scan(layer, reshard(x, rows), params)[0]
    ### END SOLUTION


# %% [markdown] hints="explicit_mlp"
# - Write `mlp` again. `print(jax.typeof(hidden))` works inside `jit`.
# - `reshard(x, P("data", None))` before the scan; then `x @ w["w1"]` is clear.
# - The second product needs `jnp.matmul(..., out_sharding=P("data", None))`.

# %% check="explicit_mlp"

# %% [markdown]
# ## 10. When to drop to shard_map
#
# For a ring, a pipeline, or against an unwanted collective, write the collectives
# yourself. The function sees one block, which keeps its split axis (`pmap` removes it).
#
# **Predict, then run.** The numbers 0 to 15 are split over four devices. What does
# `sums` hold, and what shape has it?

# %%
mesh = make_mesh((4,), ("data",))


def own_and_total(x_block):  # f32[16 / 4] -> two f32[1]
    own = x_block.sum(keepdims=True)
    return own, jax.lax.psum(own, "data")


both = jax.shard_map(
    own_and_total, mesh=mesh, in_specs=P("data"), out_specs=(P("data"), P())
)
sums, total = jax.jit(both)(np.arange(16, dtype=np.float32))
print("sums: ", np.asarray(sums), " total:", np.asarray(total))

# %% [markdown]
# ### Exercise 4.9: sharded_matmul
#
# [the product] `sharded_matmul(a, b, num_devices)` multiplies `a: (M, K)` and `b: (K, N)`
# by `jax.shard_map` on the first `num_devices` devices; JAX can trace it.
#
# - [each device has its part of k] The **contraction** `K` is split: a device
#   multiplies its part alone.
# - [rows come out] The result, `(M, N)`, comes out split by rows.
# - [one reduce-scatter] One reduce-scatter, and nothing else is sent (with one device
#   none is needed).
# - [size and devices are named] `K` or `M` does not divide: `ValueError`, naming its size
#   and the number of devices (JAX's own will do).


# %% exercise="sharded_matmul" minutes=11 difficulty=3
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

# %% check="sharded_matmul"

# %% [markdown]
# ## 11. Check what the compiler did
#
# - **Where does it lie?** `draw_array`, `jax.typeof`.
# - **What is sent?** `jax.jit(f).lower(...).compile().as_text()` names the collectives.
# - **What does it need?** `memory_analysis()`, `cost_analysis()` of what is compiled.

# %% [markdown]
# ## 12. What a step is bound by
#
# A step needs arithmetic, memory and the link. If all three overlap, the longest decides.
# A **roofline** (grey) shows how fast a device can compute: on the slope memory decides,
# on the flat part arithmetic. What lies *under* the roof waits for the link.
#
# **Predict, then run.** Forward and backward, a layer is six products, each of which
# touches a weight and two activations. From how many rows per device on does one of
# eight keep up with one alone, in each layout?

# %%
chip = {"compute": 1e14, "memory": 2e12, "communication": 1e11}  # per second
per_device, width = 4.0 ** np.arange(1, 7), 4096  # rows; W = H
intensity = per_device * width / 2 / (width + 2 * per_device)  # FLOPs per byte
roof = np.minimum(chip["compute"], chip["memory"] * intensity)
reached = {"one device": roof}
for name, passes in {"data parallel": 2, "FSDP": 3}.items():  # over the weights
    per_sent_byte = 12 * per_device / (passes * 7 / 8 * 8)  # FLOPs; W * H cancels
    reached[name] = np.minimum(roof, chip["communication"] * per_sent_byte)
    shares = reached[name] / roof
    both = zip(per_device, shares, strict=True)
    print(f"{name:<14}", ", ".join(f"{n:.0f} rows: {s:.0%}" for n, s in both))

# %%
from coursekit.draw.canvas import HOST, INK, SHADES, show
from coursekit.draw.training import label_ends, step_axes

axes = step_axes("FLOP/s of a device", "One layer, W = H = 4096, by rows per device")
slope = np.array([intensity[0], 50, intensity[-1]])  # 50: where memory keeps up
heights = np.minimum(chip["compute"], chip["memory"] * slope)
axes.fill_between(slope, heights, color=HOST)
looks = (":^", INK), ("--s", SHADES[5]), ("-o", SHADES[4])
order = list(reached)[::-1]  # from below, as the labels stand
for place, (name, (mark, color)) in enumerate(zip(order, looks, strict=True)):
    axes.loglog(intensity, reached[name], mark, color=color, zorder=4 - place)
for number, *point in zip(per_device, intensity, roof * 1.4, strict=True):
    axes.text(*point, f"{number:.0f}", ha="center", fontsize=9, color=INK)
axes.set(ylim=(1e11, 4e14))
axes.set_xlabel("FLOPs per byte of memory", color=INK)
label_ends(axes, order)
axes.figure.tight_layout()
texts = [f"{name} " + ", ".join(f"{v:.1e}" for v in reached[name]) for name in reached]
many = ", ".join(f"{number:.0f}" for number in per_device)
show(axes.figure, f"FLOP/s of a device, by {many} rows: {'; '.join(texts)}.")

# %% [markdown]
# One of eight keeps up from 1,167 rows per device on in data parallel, from 1,750 in
# FSDP. What is sent does not grow with the rows: more of them pay for it. Where
# arithmetic decides, the rows needed do not depend on the width.

# %% [markdown]
# ### Exercise 4.10: step_bound
#
# `step_bound(flops, memory_bytes, sent_bytes, chip)` returns `(seconds, bound)`.
#
# - [seconds of each part] `seconds`: a dict with `chip`'s keys.
# - [the longest part binds] `bound`: the key of the longest; of equal ones the first of
#   compute, memory, communication, however `chip` is ordered.
#
# [the fewest rows] `rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip)`
# returns the fewest rows per device, an `int` of at least 1, with which computing takes
# no less time than sending, up to the rounding of Python's floats. All parameters
# together have `num_bytes`.
#
# - [what a layout sends] `"data parallel"`: one all-reduce of the gradients. `"FSDP"`:
#   the weights are gathered twice, the gradients reduce-scattered once; all by lesson
#   2's ring.
# - [one device sends nothing] One device needs 1 row.


# %% exercise="step_bound" minutes=13 difficulty=2
def step_bound(flops, memory_bytes, sent_bytes, chip):
    """Predicts what a step spends its time on, if all parts overlap.

    Args:
        flops: the FLOPs of a device.
        memory_bytes: bytes that it reads or writes.
        sent_bytes: bytes that it sends.
        chip: {"compute": ..., "memory": ..., "communication": ...}, of each what a
            device does per second, above 0.

    Returns:
        (seconds, bound): a dict of numbers with chip's keys, and one of these keys.
    """
    ### BEGIN SOLUTION
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)
    ### END SOLUTION


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    """Predicts how many rows per device hide the communication, an int.

    `num_bytes` is of all parameters, `flops_per_row` of a step, forward and backward.
    """
    ### BEGIN SOLUTION
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))
    ### END SOLUTION


# %% [markdown] hints="step_bound"
# - Seconds are an amount divided by a speed. `max(seconds, key=seconds.get)` returns the
#   first of equal ones, in the order in which the dict was filled.
# - Per device, a ring's all-gather and its reduce-scatter each send `(D - 1) / D` of the
#   whole array; an all-reduce is both.
# - `rows * flops_per_row / chip["compute"]` must reach the seconds of sending:
#   `math.ceil`, and at least 1.

# %% check="step_bound"

# %% [markdown]
# ## 13. Sending while computing
#
# A step's parts overlap only if the program lets them. An all-gather right before its
# product does not: no multiplication can start before all of `w` is here.
#
# A **collective matmul** works in pieces. A device multiplies the piece of `w` that it
# holds *while* the next one travels: D products, D - 1 sends.
#
# **Predict, then run.** One product of the layer above, eight devices. How much time do
# pieces save at 2,048 rows: about 1/8, 1/2 or 7/8? More or less at 8,192?


# %%
def timeline(rows, num_pieces=8):  # when each product starts, and what a part takes
    send = 4 * width**2 / num_pieces / chip["communication"]
    product = 2 * rows * width**2 / num_pieces / chip["compute"]
    starts = [0.0]
    for piece in range(1, num_pieces):  # piece 0 is here, the others come
        starts.append(max(starts[-1] + product, piece * send))
    return np.array(starts), send, product


for count in (512, 2048, 8192):
    starts, send, product = timeline(count)
    gathered, pieces = 7 * send + 8 * product, starts[-1] + product
    print(
        f"{count} rows: gathered first {1e3 * gathered:.2f} ms,",
        f"in pieces {1e3 * pieces:.2f} ms: {1 - pieces / gathered:.0%} less",
    )

# %%
from coursekit.draw.canvas import TINTS

starts, send, product = timeline(2048)
ticks = {"gathered first: link": [(0, 7 * send, "pieces 1 to 7 of w")]}
ticks["gathered first: products"] = [(7 * send, 8 * product, "one product")]
ticks["in pieces: link"] = [(p * send, send, f"{p + 1}") for p in range(7)]
ticks["in pieces: products"] = [(t, product, f"{p}") for p, t in enumerate(starts)]
axes = step_axes("", "A product with w split over 8 devices, 2,048 rows: device 0")
for row, bars in enumerate(ticks.values()):
    for start, length, text in bars:
        tint = TINTS[int(text) % 8] if text.isdigit() else HOST
        look = {"facecolor": tint, "edgecolor": INK}
        axes.broken_barh([(1e3 * start, 1e3 * length)], (row - 0.35, 0.7), **look)
        axes.text(1e3 * (start + length / 2), row, text, ha="center", va="center")
axes.set(yticks=range(4), yticklabels=list(ticks), ylim=(3.5, -0.5))
axes.set_xlabel("milliseconds", color=INK)
axes.figure.tight_layout()
ends = {name: 1e3 * (bars[-1][0] + bars[-1][1]) for name, bars in ticks.items()}
texts = ", ".join(f"{name} until {end:.2f} ms" for name, end in ends.items())
words = "The first product waits for 7 pieces; in pieces, each only for its own"
show(axes.figure, f"Times of device 0. {words}: {texts}.")

# %% [markdown]
# What overlaps is decided by **data flow**, not by the order of lines: a product and a
# send of which neither needs the other.
#
# On TPUs and GPUs a send is asynchronous: the compiled program has a
# `collective-permute-start` and a `-done`, between which XLA's latency-hiding scheduler
# puts products. XLA may also cut a gather into pieces by itself. Simulated devices
# share your cores: they show structure, not time.

# %% [markdown]
# ### Exercise 4.11: overlapped_matmul
#
# `X` and `W` are split by rows: device `d` holds `x: (M, D * K)` and piece `d` of `W`,
# `w: (K, N)`.
#
# [the product] `overlapped_matmul(x, w, axis_name)` works on one device's block, under
# `pmap` or `shard_map` (with `check_vma=False`), and returns its `(M, N)` rows of `X @ W`.
#
# - [any axis] Any `D`, any `axis_name`.
# - [pieces travel] Each device sends `D - 1` pieces, by `jax.lax.ppermute`, and nothing
#   else.
# - [never the whole] From three devices on, no array of the traced program is as large
#   as `W`, but `x`, whole, rolled or cut, or the result.
# - [sends wait for no product] No send depends on `x`, nor waits for a product. A loop
#   is fine.
# - [no extra arithmetic] The products take no more multiplications than `x @ W`.


# %% exercise="overlapped_matmul" minutes=20 difficulty=3
def overlapped_matmul(x, w, axis_name):
    """Multiplies by a split matrix, piece by piece, while the pieces travel.

    Args:
        x: f32[M, D * K], this device's rows.
        w: f32[K, N], piece d of W on device d: its rows d * K to (d + 1) * K - 1.
        axis_name: the name of the devices' axis, which has D devices.

    Returns:
        x @ W, f32[M, N].
    """
    ### BEGIN SOLUTION
    num_devices = jax.lax.axis_size(axis_name)
    device, size = jax.lax.axis_index(axis_name), len(w)
    to_left = [(d, (d - 1) % num_devices) for d in range(num_devices)]
    result = 0
    for step in range(num_devices):
        start = (device + step) % num_devices * size
        result += jax.lax.dynamic_slice_in_dim(x, start, size, axis=1) @ w
        if step < num_devices - 1:
            w = jax.lax.ppermute(w, axis_name, to_left)
    return result
    ### END SOLUTION


# %% [markdown] hints="overlapped_matmul"
# - Python's `for` over D pieces is fine, the own one first. Piece `p` belongs to the
#   columns `p * K` to `(p + 1) * K - 1` of `x`.
# - If each device sends to its left neighbor, device `d` holds piece `(d + step) % D` at
#   each step; `jax.lax.axis_index` and `jax.lax.axis_size` give `d` and `D`.
# - `jax.lax.dynamic_slice_in_dim(x, start, K, axis=1)` takes columns from a computed
#   start. In each round but the last, send the piece on.

# %% check="overlapped_matmul"

# %% [markdown]
# **Your score.** The scorecard shows what the checks above said last. Save the notebook,
# then run `make grade` in a terminal, in the course's folder: it grades the saved file as
# a class's work is graded, and shows the same cards.

# %% scorecard=true
