# %% [markdown]
# # Lesson 4. The sharding API
#
# COLAB_BADGE
#
# You have a model of 7 billion parameters and a machine with eight H100 GPUs. Training
# with Adam in float32 needs 16 bytes for every parameter: 4 for the weight, 4 for its
# gradient, 8 for Adam's two moments. That makes 112 GB, and [one H100 has
# 80](https://www.nvidia.com/en-us/data-center/h100/). What would you have to change in
# your training step so that each GPU keeps an eighth of the model, 14 GB, and the
# losses stay the same?
#
# The answer is: nothing in the step. You say how each array is *sharded* over the
# devices, `jax.jit` compiles one program for all of them, and the compiler inserts the
# collectives that you wrote by hand in lessons 2 and 3. The numbers are right in
# every layout; what you decide is how much memory a device needs and how much it
# sends.
#
# **After this lesson you can**
#
# - say what each device holds of an array, and read from the compiled program what the
#   devices send each other;
# - use one model's code for data parallelism, tensor parallelism and FSDP, and plan the
#   step before you rent GPUs;
# - (second part) see layouts as types, and write a step by hand that crosses the
#   network once.
#
# **You need** lessons 1 to 3. **Time**: about 160 minutes in two sittings of 80 for the
# first part; the second takes two more.
#
# <!-- H100 SXM: 80 GB, NVLink 450 GB/s one way, 989 TFLOP/s in bfloat16, 494.5 in TF32:
# NVIDIA's data sheet, read in November 2026. -->

# %% setup=true

# %% [markdown]
# ## 1. Mesh, spec, sharding
#
# - A **mesh** arranges devices in a grid and names the grid's axes. On the mesh below,
#   `"data"` has four positions and `"model"` has two.
# - A **spec**, `P(...)`, has one entry for each axis of an *array*: a mesh axis to
#   shard it over, `None` for not sharded, or a tuple of mesh axes: the second cuts the
#   pieces of the first.
# - A **sharding** is the two together: `NamedSharding(mesh, spec)`. `jax.device_put(x,
#   sharding)` places `x` accordingly.


# %%
import dataclasses
import functools
import math

import optax
from coursekit.compiled_program import CompiledProgram
from coursekit.plan import CHIPS, Cluster, plan
from coursekit.plan import devices as planned_devices
from jax.sharding import AxisType, NamedSharding, auto_axes, reshard
from jax.sharding import PartitionSpec as P


def make_mesh(shape, names, devices=None):  # section 10 explains the types
    types = (AxisType.Auto,) * len(names)
    return jax.make_mesh(shape, names, axis_types=types, devices=devices)


mesh = make_mesh((4, 2), ("data", "model"))
draw_mesh(mesh)

# %% [markdown]
# **Predict, then run.** On this mesh, `w: (4, 8)` is sharded by `P(None, "model")`.
# What does each device hold? And of `stack: (4, 2, 4)`, sharded by `P("data", None,
# "model")`?

# %%
x = np.arange(64, dtype=np.float32).reshape(16, 4)
x = jax.device_put(x, NamedSharding(mesh, P("data", "model")))
draw_array(x, 'x, P("data", "model"):')
w = jax.device_put(np.ones((4, 8), np.float32), NamedSharding(mesh, P(None, "model")))
draw_array(w, 'w, P(None, "model"):')
stack = np.ones((4, 2, 4), np.float32)
stack = jax.device_put(stack, NamedSharding(mesh, P("data", None, "model")))
draw_array(stack, 'stack, P("data", None, "model"):')
both = jax.device_put(np.ones((8, 2)), NamedSharding(mesh, P(("data", "model"))))
draw_array(both, 'both, P(("data", "model")):')

# %% [markdown]
# Devices 0, 2, 4 and 6 are at position 0 of `"model"` and hold the same half of `w`:
# along a mesh axis that the spec does not name, an array is *replicated* (hatched in
# the picture). Each device has its own `(1, 2, 2)` of `stack`. Missing entries at the
# end of a spec count as `None`, so `P()` replicates an array.
#
# Outside this course, ask the array: `x.sharding`, the `device`, `index` and `data` of
# each of `x.addressable_shards`, and `jax.debug.visualize_array_sharding(x)`, which
# draws a matrix (with the package rich).

# %% [markdown]
# **The rules.** Every function that you write in this lesson must obey two rules.
#
# - [arguments stay] It does not modify, delete or donate its arguments.
# - [nothing is remembered] Its result depends on its arguments alone, not on earlier
#   calls.
#
# An exercise's table lists what is checked. Rows in **bold** are essential: together
# they are worth half of the points, and if one of them fails, the exercise earns
# nothing. The other rows share the other half.
#
# Arrays arrive unsharded, as NumPy arrays or on the default device, unless an exercise
# says otherwise.
#
# Where you compute with arrays, use `jnp`, not NumPy, `float()` or `if`: many checks also
# trace your function inside `jax.jit`. Two ways to place an array do nothing or fail
# inside `jit`: `jnp.zeros(..., device=)`, and `out_shardings=P(...)` under
# `jax.set_mesh`.

# %% [markdown]
# ### Exercise 4.1: predict_layout
#
# Before you rent 512 GPUs you want to know what each of them will hold. A layout is
# arithmetic. A weight of the MLP in [Llama 3 70B](https://arxiv.org/abs/2407.21783),
# 8,192 x 28,672, makes 470 MB in bfloat16; sharded by `P("data", "model")` over 8 x 64
# devices, each holds 0.9 MB.
#
# Write `predict_layout(shape, mesh_shape, spec)`. It returns `(shard_shape,
# num_distinct)`: the shape of one device's block, and how many *different* blocks there
# are. (Devices that hold the same block are replicas.)
#
# ```python
# predict_layout((16, 6), {"data": 4, "model": 2}, ("data", None))    # ((4, 6), 4)
# predict_layout((3, 8), {"data": 4, "model": 2}, (None, ("model", "data")))
#                                                                     # ((3, 1), 8)
# ```
#
# - [block and count] The shape and the count agree with those of a `NamedSharding` with
#   this mesh and spec.
# - [no devices needed] The mesh may be larger than this machine.
# - [short specs] `spec` may have fewer entries than `shape`: the missing ones are
#   `None`.
# - [mistakes raise] An axis whose size is not a multiple of its number of parts, or a
#   name that the mesh does not have, raises a `ValueError`.


# %% exercise="predict_layout" minutes=10 difficulty=1
def predict_layout(shape, mesh_shape, spec):
    """Predicts how a sharding splits an array.

    Args:
        shape: the shape of the array.
        mesh_shape: devices along each mesh axis, such as {"data": 4, "model": 2}.
        spec: for each array axis a mesh axis, a tuple of them, or None; not longer than
            shape. No mesh axis appears twice.

    Returns:
        (shard_shape, num_distinct): a tuple like shape, and an int.
    """
    ### BEGIN SOLUTION
    # Pure arithmetic, so that it works for any mesh. JAX has the same in
    # NamedSharding(jax.sharding.AbstractMesh(...), spec).shard_shape(shape),
    # which needs no devices either.
    shard_shape, num_distinct = list(shape), 1
    for axis, names in enumerate(spec):
        names = (names,) if isinstance(names, str) else names or ()
        if not set(names) <= set(mesh_shape):
            raise ValueError(f"{names} are not all axes of {mesh_shape}")
        parts = math.prod(mesh_shape[name] for name in names)
        if shape[axis] % parts:
            raise ValueError(f"{shape[axis]} does not divide into {parts} parts")
        shard_shape[axis] //= parts
        num_distinct *= parts
    return tuple(shard_shape), num_distinct
    ### END SOLUTION


# %% [markdown] hints="predict_layout"
# - Go through `enumerate(spec)`, and turn each entry into a tuple of names first:
#   `"data"` becomes `("data",)`, and `None` becomes `()`.
# - An axis is cut into the *product* of the sizes of its mesh axes: `math.prod(...)`.

# %% check="predict_layout"

# %% [markdown]
# The model of the opening will be 52 layers of two matrices of 8,192 x 8,192. Your
# function says what a GPU holds of them.


# %%
@needs("predict_layout")
def _():
    shape = (52, 8192, 8192)
    for nodes, spec in ((1, ()), (1, (None, "gpu")), (8, (None, ("node", "gpu")))):
        block, count = predict_layout(shape, {"node": nodes, "gpu": 8}, spec)
        held = 2 * 16 * math.prod(block) / 1e9  # two matrices, 16 bytes for a number
        print(f"{8 * nodes:2} GPUs, {spec}: {block}, {count} different, {held:.1f} GB")
    spec = ("data", None, "model")
    block, _ = predict_layout(stack.shape, dict(stack.sharding.mesh.shape), spec)
    print("stack:", block == stack.sharding.shard_shape(stack.shape))


# %% [markdown] built="predict_layout"
# JAX answers with `sharding.shard_shape(shape)`, even for a `jax.sharding.AbstractMesh`
# without devices.

# %% [markdown]
# ## 2. Moving an array, and what it costs
#
# When the output of one layer has a different sharding from the one that the next layer
# needs, the compiler has to move data, which is called *resharding*. The **compiled**
# program tells you what it costs: `compiled(f, *arrays)` below lists its collectives. (In
# plain JAX, `jax.jit(f).lower(...).compile().as_text()` shows them.) `out_shardings=` of
# `jax.jit` says how a result must be sharded.
#
# **Predict, then run.** A matrix of 64 KiB is on 8 devices, sharded or replicated.
# Which of the three moves costs nothing, and which costs most?


# %%
def compiled(function, *arrays, **options):
    return CompiledProgram(jax.jit(function, **options).lower(*arrays).compile())


mesh = make_mesh((8,), ("i",))
rows, columns, everywhere = (
    NamedSharding(mesh, P(*spec)) for spec in (("i",), (None, "i"), ())
)
for name, before, after in (
    ("by rows    -> by columns", rows, columns),
    ("by rows    -> replicated", rows, everywhere),
    ("replicated -> by rows", everywhere, rows),
):
    x = jax.device_put(np.ones((64, 256), np.float32), before)
    moves = compiled(lambda x: x, x, out_shardings=after).collectives
    sent = sum(one.bytes_moved for one in moves) / 1024
    kinds = ", ".join(one.kind for one in moves)
    print(f"{name:<26}a device sends {sent:2.0f} KiB  {kinds}")

# %% [markdown]
# From replicated to rows nobody sends anything: each device drops what it does not
# need. From rows to replicated costs most, since every device's 8 KiB must reach the
# seven others. Between rows and columns a device sends seven eighths of its 8 KiB.

# %% [markdown]
# ## 3. Computation follows data
#
# Under `jax.jit` an operation runs where its inputs are, and the compiler chooses the
# shardings of everything in between.
#
# The model of this lesson has `L` layers `relu(x @ w1) @ w2`, the MLP block of a
# transformer. Their weights are stacked, `w1: (L, W, H)` and `w2: (L, H, W)`.
# `lax.scan(layer, x, params)` calls `layer(x, {"w1": w1[i], "w2": w2[i]})` for one `i`
# after the other, and XLA compiles one layer.
#
# **Predict, then run.** The parameters are replicated, the batch is sharded by rows.
# How will the output be sharded? Which collective does the *gradient* need?


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
params, x = jax.device_put(params, everywhere), jax.device_put(x, rows)
draw_array(jax.jit(mlp)(params, x), "mlp(params, x)")
for one in compiled(jax.grad(mlp_loss), params, x, x).collectives:
    print(one)

# %% [markdown]
# The output is sharded like the batch, by rows. The gradient is a sum over the batch,
# so the compiler inserted an all-reduce for each array of weights. `jnp.mean` means the
# mean over the *whole* batch, because an array under `jit` is one array.
#
# So **data parallelism** leaves the step as it is, and moving a `pmap` program is mostly
# deleting:
#
# | with `pmap` | with the sharding API |
# |---|---|
# | params stacked: `(8, ...)` | `device_put(params, everywhere)`: `(...)` |
# | batch reshaped: `(8, B / 8, ...)` | `device_put(batch, rows)`: `(B, ...)` |
# | `pmap(step, "i")` | `jit(step)` |
# | `lax.pmean(grads, "i")` | deleted |

# %% [markdown]
# ## 4. Constraints
#
# The compiler chooses the shardings inside `jit`, and sometimes badly. Then you insist:
# `jax.lax.with_sharding_constraint(x, sharding)` says how an intermediate array must be
# sharded.
#
# **Predict, then run.** The batch arrives replicated on 8 devices. What fraction of the
# work does a device do if a constraint shards the batch? And with `device_put` inside
# `jit`?


# %%
def sharded_by(fix):
    return lambda params, x: mlp(params, fix(x, rows))


replicated, batch = jax.device_put(mlp_case(0, 64, 6, 24)[:2], everywhere)
all_rows = compiled(mlp, replicated, batch)
for fix in (jax.lax.with_sharding_constraint, jax.device_put):
    times = all_rows.flops / compiled(sharded_by(fix), replicated, batch).flops
    print(f"{fix.__name__}: a device computes 1/{times:.0f} of it")

# %% [markdown]
# The constraint shards the batch, and the computation follows it. **Common mistake**:
# `device_put` inside `jit` shards nothing here, and nothing warns you. All devices do
# all the work, and the result is right.

# %% [markdown]
# ## 5. Tensor parallelism
#
# **Tensor parallelism** shards the *weights*.
# [Megatron-LM](https://arxiv.org/abs/1909.08053) found the pairing that everybody uses
# for an MLP: the first matrix is **column-parallel**, the second **row-parallel**, over
# the same mesh axis.
#
# With `w1` split by columns, each device computes its own hidden units in full. With
# `w2` split by rows, it multiplies exactly those units. Each device ends up with one
# *term of a sum* over the devices, and one all-reduce per layer adds the terms.

# %%
mesh = make_mesh((4,), ("model",))
for name, shape, spec in (
    ("w1, column-parallel: own hidden units", (4, 8), (None, "model")),
    ("w2, row-parallel: the rows that meet them", (8, 4), ("model", None)),
):
    w = jax.device_put(np.ones(shape), NamedSharding(mesh, P(*spec)))
    draw_array(w, name)

# %% [markdown]
# ### Exercise 4.2: tensor_parallel_mlp
#
# Tensor parallelism sends activations: for 8,192 tokens of Llama 3 70B, every device of
# eight sends 235 MB in bfloat16 for the forward pass of each MLP. That takes half a
# millisecond over NVLink, and 4.7 over a network card of 50 GB/s, so it stays inside a
# machine.
#
# Write `tensor_parallel_mlp(params, x, mesh_shape)`, which is called inside `jit`. It
# computes `mlp(params, x)` on a mesh `("data", "model")` and returns `(params, y)`: the
# given weights, sharded as in the docstring (`H@model`: axis `H` is sharded over
# `"model"`), and the output. `params` and `x` arrive without a sharding, so constrain
# them, and each layer's hidden units and output.
#
# ```python
# f = jax.jit(tensor_parallel_mlp, static_argnums=2)
# params, y = f(params, x, (2, 4))         # w1: f32[3, 8, 48], x: f32[24, 8]
# params["w1"].addressable_shards[0].data.shape            # (3, 8, 12): 12 units
# y.addressable_shards[0].data.shape                       # (12, 8): half the rows
# ```
#
# - [same numbers] `y` is `mlp(params, x)`, and the returned weights are the given ones.
# - [sharded weights and output] Both weights come out sharded along `H` over `"model"`,
#   and `y` along `B` over `"data"`.
# - [own rows, own units] Each device computes only its own rows of its own hidden
#   units, and receives no others.
# - [one all-reduce per layer] Nothing else is sent.


# %% exercise="tensor_parallel_mlp" minutes=25 difficulty=2
def tensor_parallel_mlp(params, x, mesh_shape):
    """Computes the model with weights and batch sharded, inside `jit`.

    Args:
        params: {"w1": f32 (L, W, H), "w2": f32 (L, H, W)}.
        x: f32 (B, W).
        mesh_shape: devices along "data" and along "model". B is a multiple of the
            former, H of the latter.

    Returns:
        (params, y): w1 f32[L, W, H@model], w2 f32[L, H@model, W], y f32[B@data, W].
    """
    mesh = make_mesh(mesh_shape, ("data", "model"))

    def on(x, *spec):  # a constraint: on(x, "data", None)
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    ### BEGIN SOLUTION
    # Two constraints per layer are more than today's compiler needs here; they make
    # sure that a new version does not choose otherwise. Megatron writes the same
    # pairing with explicit all-reduces in two classes, one for each kind of layer.
    specs = {"w1": (None, None, "model"), "w2": (None, "model", None)}

    def layer(x, w):
        hidden = on(jax.nn.relu(x @ w["w1"]), "data", "model")
        return on(hidden @ w["w2"], "data", None), None

    params = {name: on(params[name], *spec) for name, spec in specs.items()}
    return params, jax.lax.scan(layer, on(x, "data", None), params)[0]
    ### END SOLUTION


# %% [markdown] hints="tensor_parallel_mlp"
# - Constrain the weights first. The first axis of `w1` counts the layers. Inside `jit`,
#   `device_put` would shard nothing.
# - `on(jax.nn.relu(x @ w["w1"]), "data", "model")` is the hidden layer. Constrain `x`
#   before the scan, too.

# %% check="tensor_parallel_mlp"


# %%
@needs("tensor_parallel_mlp")
def _():
    run = jax.jit(tensor_parallel_mlp, static_argnums=2)
    params, x, _ = mlp_case(0, 4, 4, 8, layers=1)
    draw_array(run(params, x, (2, 4))[1], "y, by your function:")
    params, x, _ = mlp_case(0, 512, 128, 512)
    program = CompiledProgram(run.lower(params, x, (2, 4)).compile())
    share = compiled(mlp, params, x).flops / program.flops
    print(f"A device computes 1/{share:.0f} of it, and sends in two layers:")
    for one in program.collectives:
        print(f"  {one}, {one.bytes_moved / 2**10:.0f} KiB")


# %% [markdown] built="tensor_parallel_mlp"
# These are `ColumnParallelLinear` and `RowParallelLinear` of
# [Megatron-LM](https://github.com/NVIDIA/Megatron-LM). The compiler usually finds the
# layout of the hidden layer by itself; *usually* is why you constrained it.

# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above again.

# %% [markdown]
# ## 6. A state that is created in place
#
# For a model of 70 billion parameters, weights and Adam's two moments `mu` and `nu`
# make 840 GB in float32. No GPU can hold that, so a script that starts with `params =
# init(key)` and shards afterwards is over after its first line.
#
# The way out is to let each device create its own part. `jax.eval_shape` returns the
# shapes of a function's results without computing them. `state_shardings` below turns
# shapes and specs into a sharding for each leaf of the state; a moment gets its
# parameter's.
#
# Large code bases do not write a spec for each parameter. They name each array axis by
# its *meaning*, as `specs_by` does below (`"embed"` for `W`, `"hidden"` for `H`), and a
# table of **logical axis rules** maps meanings to mesh axes: `{"batch": "data",
# "hidden": "model"}` is tensor parallelism.
# [Flax](https://flax.readthedocs.io/en/latest/guides/flax_gspmd.html) and MaxText keep
# such tables; to change a run's layout, you change the table and no line of the model.
#
# <!-- flax.linen.logical_to_mesh_axes (Flax 0.12, read in November 2026) goes through
# the rules in order and skips one whose mesh axis is already used; ours is simpler. -->


# %%
def specs_by(rules):  # {"embed": "data"} -> {"w1": (None, "data", None), ...}
    axes = {"w1": ("layer", "embed", "hidden"), "w2": ("layer", "hidden", "embed")}
    return {name: tuple(map(rules.get, names)) for name, names in axes.items()}


def make_adam():
    return optax.adam(0.003)


def make_state(key, num_layers, width):
    draw = jax.random.normal(key, (2, num_layers, width, width)) / width**0.5
    params = {"w1": draw[0], "w2": jnp.swapaxes(draw[1], 1, 2)}
    return {"params": params, "adam": make_adam().init(params)}


# %%
# You need only its first line. `state` holds arrays or shapes.
def state_shardings(mesh, state, specs, adam_specs=None):
    on = [
        {name: NamedSharding(mesh, P(*spec)) for name, spec in some.items()}
        for some in (specs, adam_specs or specs)
    ]
    like_params = functools.partial(optax.tree_utils.tree_map_params, make_adam())
    rest = {"transform_non_params": lambda _: NamedSharding(mesh, P())}
    adam = like_params(lambda _, s: s, state["adam"], on[1], **rest)
    return {"params": on[0], "adam": adam}


for rules in ({"hidden": "model"}, {"embed": ("data", "model")}):
    print(rules, "->", specs_by(rules))

# %% [markdown]
# ### Exercise 4.3: init_sharded
#
# Write `init_sharded(key, num_layers, width, mesh_shape, axis_names, specs)`. It
# returns the state that `make_state(key, num_layers, width)` makes, on a mesh of the
# first devices, and no device ever holds more of a weight than its own block.
#
# ```python
# specs = specs_by({"embed": "data", "hidden": "model"})
# state = init_sharded(jax.random.key(3), 3, 16, (2, 4), ("data", "model"), specs)
# state["params"]["w1"].addressable_shards[0].data.shape      # (3, 8, 4)
# state["adam"][0].mu["w1"].addressable_shards[0].data.shape  # (3, 8, 4): the same
# ```
#
# - [same numbers] The values are those of `make_state` for the same key.
# - [sharded as asked] Each parameter and both of its moments are sharded as `specs`
#   says; the rest (Adam's count) is replicated.
# - [never a full copy] No device may ever hold a full copy of an array that `specs`
#   shards: parameters and moments are made inside `jit`.


# %% exercise="init_sharded" minutes=15 difficulty=2
def init_sharded(key, num_layers, width, mesh_shape, axis_names, specs):
    """Creates the state of training straight in its layout.

    Args:
        key: a `jax.random.key`.
        num_layers: number of layers L.
        width: W; w1 and w2 are f32 (L, W, W).
        mesh_shape: devices along each mesh axis.
        axis_names: the names of the mesh axes.
        specs: {"w1": ..., "w2": ...}, plain tuples.

    Returns:
        {"params": ..., "adam": ...}, as `make_state` makes it, sharded.
    """

    ### BEGIN SOLUTION
    # Shapes first, without computing; then one jit whose results are sharded. JAX's
    # random numbers depend on their position alone, so each device draws its own block
    # and the values are those of one device. Flax and MaxText start in the same way.
    def init(key):
        return make_state(key, num_layers, width)

    mesh = make_mesh(mesh_shape, axis_names)
    shardings = state_shardings(mesh, jax.eval_shape(init, key), specs)
    return jax.jit(init, out_shardings=shardings)(key)
    ### END SOLUTION


# %% [markdown] hints="init_sharded"
# - `device_put` of a finished state is too late: it was on one device already.
# - Inside a `jit` with `out_shardings`, each device draws its own part only (with JAX's
#   default keys).
# - With `init = lambda key: make_state(key, num_layers, width)`, `jax.eval_shape(init,
#   key)` gives the shapes that `state_shardings` needs.

# %% check="init_sharded"

# %% [markdown]
# **Common mistake: an optimizer state that forgot its layout.** Your function creates
# four layers of width 1024 in place; then Adam's state is made once more, by `jit`
# without `out_shardings`. **Predict, then run.** Where do Adam's 64 MiB go?


# %%
def mib_on(device, tree):
    shards = [s for leaf in jax.tree.leaves(tree) for s in leaf.addressable_shards]
    return sum(s.data.nbytes for s in shards if s.device == device) / 2**20


@needs("init_sharded")
def _():
    guess = None  # your prediction: MiB of them on device 0
    specs = specs_by({"embed": "data", "hidden": "model"})
    mesh = (2, 4), ("data", "model")
    state = init_sharded(jax.random.key(0), 4, 1024, *mesh, specs)
    forgotten = jax.jit(make_adam().init)(state["params"])
    for name, adam in (("in place", state["adam"]), ("forgotten", forgotten)):
        held = [f"{mib_on(device, adam):4.0f}" for device in jax.devices()]
        print(f"{name:<10}", *held, "MiB")
    prediction("MiB of Adam on device 0", mib_on(jax.devices()[0], forgotten), guess)


# %% [markdown] built="init_sharded"
# The forgotten state is on device 0 alone. The moments start as zeros, which depend on
# no array, so inside `jit` nothing says where they belong. So give `out_shardings` to
# every `jit` that makes state.

# %% [markdown]
# ## 7. The seven copies you do not need
#
# In data parallelism every device keeps its own weights, gradients and moments: 112 GB
# before a single activation is stored, and seven copies too many on eight devices.
# **ZeRO** ([Rajbhandari et al., 2020](https://arxiv.org/abs/1910.02054)) gives them up:
# stage 1 shards Adam's moments over the devices, stage 2 the gradients too, stage 3,
# better known as **FSDP**, fully sharded data parallelism, the weights themselves.
#
# Before a device computes a layer, it gathers the other seven eighths of that layer's
# weights, and drops them after use, in the forward and again in the backward pass.

# %% [markdown]
# ### Exercise 4.4: fsdp_step
#
# Write `fsdp_step(shardings)`. It returns a training step `step(state, x, y) -> (state,
# loss)` with `mlp_loss` and `make_adam()`, where `loss` is the one before the update.
# The state is sharded as `shardings` says, before and after the step; `x` and `y` are
# sharded by rows. The step donates its state (`fsdp_step` itself changes nothing).
#
# ```python
# step = fsdp_step(shardings)              # a NamedSharding for each leaf of the state
# state, loss = step(state, x, y)          # x, y: f32[32, 16], by rows over 8 devices
# state["params"]["w1"].addressable_shards[0].data.shape   # (2, 2, 40) of (2, 16, 40)
# ```
#
# - [same numbers] State and loss match those of a single device that holds everything.
# - [stays sharded] The new state is sharded as `shardings` says, be it FSDP's or
#   ZeRO-1's.
# - [own rows] Each device computes its own rows of the batch.
# - [layer by layer] With FSDP's shardings, weights are gathered one layer at a time,
#   forward and again backward, and nothing else is sent but the gradients and the loss,
#   once. Gradients are sharded like the weights.
# - [state donated] The memory of the old state is reused for the new one.
# - [no recompilation] A second step, on the state that the first one returned, compiles
#   nothing.


# %% exercise="fsdp_step" minutes=20 difficulty=2
def fsdp_step(shardings):
    """Makes the training step for a sharded state.

    Args:
        shardings: a `NamedSharding` for each leaf of the state.

    Returns:
        step(state, x, y) -> (state, loss), compiled;
            x, y: f32 (B, W), sharded by rows; loss: f32 ().
    """

    ### BEGIN SOLUTION
    # FSDP is in the shardings alone. Gathering layer by layer comes from lax.scan,
    # whose loop needs one layer's weights at a time. out_shardings makes sure that the
    # compiler does not return the weights gathered, as it would for ZeRO-1.
    # PyTorch's fully_shard does by hooks on each module what the compiler does here.
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)
    ### END SOLUTION


# %% [markdown] hints="fsdp_step"
# - Write the step of **one** device that holds everything, with Optax's `update` and
#   `apply_updates`.
# - FSDP is in the shardings, and in the `lax.scan` of `mlp`. Which option of `jax.jit`
#   says how its results are sharded, and which one reuses an argument's memory?
# - `jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)`; `None` leaves
#   the loss to the compiler.

# %% check="fsdp_step"

# %% [markdown]
# Now your step is compiled for 2 x 4 devices in five layouts, and only the rules
# change. Data parallelism shards only the batch, ZeRO-1 adds Adam's moments, FSDP adds
# the weights; "both" adds FSDP over `"data"` to tensor parallelism.
#
# **Predict, then run.** The weights take 32 MiB. In which layout does a device hold the
# least? In which does it send the most?


# %%
def shapes_of(mesh, num_layers, width, num_rows, rules, adam_rules=None):
    """Returns shardings of the state, and state and batch as shapes: nothing is made."""
    state = jax.eval_shape(lambda: make_state(jax.random.key(0), num_layers, width))
    adam_specs = specs_by(adam_rules) if adam_rules else None
    shardings = state_shardings(mesh, state, specs_by(rules), adam_specs)
    shapes = jax.tree.map(
        lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s),
        state,
        shardings,
    )
    rows = NamedSharding(mesh, P(rules["batch"]))
    x = jax.ShapeDtypeStruct((num_rows, width), np.float32, sharding=rows)
    return shardings, shapes, x


# %%
every = ("data", "model")
layouts = {
    "data parallel": [{"batch": every}],
    "ZeRO-1": [{"batch": every}, {"embed": every}],
    "FSDP": [{"batch": every, "embed": every}],
    "tensor parallel": [{"batch": "data", "hidden": "model"}],
    "both": [{"batch": "data", "embed": "data", "hidden": "model"}],
}


# %%
@needs("fsdp_step")
def _():
    bars, notes, mesh = {}, {}, make_mesh((2, 4), ("data", "model"))
    for name, rules in layouts.items():
        shardings, state, x = shapes_of(mesh, 4, 1024, 64, *rules)
        step = jax.jit(fsdp_step(shardings), donate_argnums=0)
        program = step.lower(state, x, x).compile()
        memory = program.memory_analysis()
        held = memory.argument_size_in_bytes
        weights = 8 * math.prod(shardings["params"]["w1"].shard_shape((4, 1024, 1024)))
        bars[name] = {"parameters": weights, "Adam, batch": held - weights}
        bars[name]["temporary"] = memory.temp_size_in_bytes
        moves = CompiledProgram(program).collectives
        notes[name] = f"sends {sum(one.bytes_moved for one in moves) / 2**20:.1f} MiB"
        kinds = ", ".join(sorted({one.kind for one in moves}))
        print(f"{name:<16}holds {held / 2**20:4.1f} MiB, {notes[name]}: {kinds}")
    draw_memory(bars, "Memory of one device, and what your step sends", notes)


# %% [markdown]
# With FSDP and "both" a device holds an eighth of the state; with temporary arrays,
# "both" needs the least. Data parallelism all-reduces the gradients: 56 MiB leave each
# device in a step. FSDP gathers the weights twice and reduce-scatters the gradients
# once, 28 MiB each time: 84 MiB, half as much again. (The CPU's compiler
# writes a reduce-scatter as an all-reduce, 28 MiB more: hence 112, and ZeRO-1's 84
# instead of 56.) Tensor parallelism sends 8 MiB of gradients along `"data"`, and 1.5 MiB
# of activations, which grow with the batch.
#
# The next cell trains with your `init_sharded` and your `fsdp_step`, on one device and
# on eight.


# %%
@needs("init_sharded", "fsdp_step")
def _():
    rows_in, curves = np.float32(np.random.default_rng(0).normal(size=(64, 64))), {}
    specs = specs_by({"embed": "data"})
    for count in (1, 8):
        mesh = (count,), ("data",)
        state = init_sharded(jax.random.key(0), 4, 64, *mesh, specs)
        batch = jax.device_put(rows_in, NamedSharding(make_mesh(*mesh), P("data")))
        step = fsdp_step(jax.tree.map(lambda leaf: leaf.sharding, state))
        losses = curves[f"FSDP on {count}" if count > 1 else "one device"] = []
        for _ in range(40):
            state, loss = step(state, batch, batch)
            losses.append(float(loss))
        kib = 1024 * mib_on(jax.devices()[0], state)
        ends = f"{losses[0]:.2f} to {losses[-1]:.2f}"
        print(f"{count} devices: the first holds {kib:3.0f} KiB, loss {ends}")
    draw_losses(curves, title="Your state, your step: two curves, one line")


# %% [markdown] built="fsdp_step"
# This is what the `fsdp` axis of MaxText and PyTorch's `fully_shard` do, and you wrote
# not a single collective.

# %% [markdown]
# ## 8. Choose a layout
#
# Eight GPUs of one machine, a *node*, send each other 450 GB/s over NVLink. Between nodes
# a GPU has its share of the network: [50 GB/s in a DGX
# H100](https://docs.nvidia.com/dgx/dgxh100-user-guide/introduction-to-dgxh100.html), with
# a card for every GPU, and less in some clouds.
#
# <!-- DGX H100 user guide, read in November 2026: eight ConnectX-7 of 400 Gbit/s. -->
#
# Devices are numbered node by node, and the *last* axis of a mesh varies fastest: with
# `{"replica": 8, "shard": 8}` on eight nodes of eight, a group along `"shard"` is one
# node. If the weights are sharded over `"shard"` alone, gathers stay inside the node,
# and the network carries one all-reduce of the gradients, of which each GPU holds an
# eighth. This is **HSDP**, hybrid sharded data parallelism. Sharding over `n` nodes
# divides the state's memory by `n`, and sends weights over the network in every layer.

# %% [markdown]
# ### Exercise 4.5: choose_layout
#
# Write `choose_layout(shapes, nodes, gpus, memory)` for a step by `fsdp_step`. It
# returns `(mesh_shape, rules)`: the sizes of the mesh axes by name, for all `nodes x
# gpus` GPUs, and logical axis rules for `"batch"`, `"embed"` and `"hidden"`. A GPU
# needs 16 bytes for every number of its blocks of `w1` and `w2`; activations are left
# out. Batches are large: a layer's activations are larger than its weights, so tensor
# parallelism between nodes never pays. The names of the axes are yours.
#
# ```python
# shapes = {"w1": (52, 8192, 8192), "w2": (52, 8192, 8192)}    # 112 GB in all
# choose_layout(shapes, 8, 8, 80e9)            # every node can hold its own copy
# # ({"replica": 8, "shard": 8}, {"batch": ("replica", "shard"), "embed": "shard"})
# choose_layout(shapes, 4, 2, 16e9)            # only all four nodes can: 128 GB
# # ({"replica": 1, "shard": 8}, {"batch": ("replica", "shard"), "embed": "shard"})
# ```
#
# - [fits] A GPU's blocks need at most `memory` bytes.
# - [least between nodes] No layout that fits sends less between the nodes in a step.
# - [all devices work] The mesh has all GPUs, and each computes an equal share.
# - [too large] A model that fits in no layout raises a `ValueError`.


# %% exercise="choose_layout" minutes=30 difficulty=3
def choose_layout(shapes, nodes, gpus, memory):
    """Chooses mesh and rules for the MLP: what fits and sends least between nodes.

    Args:
        shapes: {"w1": (L, W, H), "w2": (L, H, W)}; W and H are multiples of
            nodes * gpus.
        nodes, gpus: nodes, and GPUs in each; GPUs of a node are consecutive devices.
        memory: bytes of one GPU that weights, gradients and moments may take.

    Returns:
        (mesh_shape, rules): {name: size} in the mesh's order, and {"batch": ...,
            "embed": ..., "hidden": ...}, where what is not sharded may be missing.

    Raises:
        ValueError: it fits in no layout.
    """
    ### BEGIN SOLUTION
    # Weights are sharded over as few nodes as hold them; over fewer GPUs than a node
    # has, they would send no less. Tensor parallelism inside the node sends as little
    # between nodes, but more inside. Real trainers try candidates with a plan.
    for used in range(1, nodes + 1):
        if nodes % used:
            continue
        mesh_shape = {"replica": nodes // used, "shard": used * gpus}
        rules = {"batch": ("replica", "shard"), "embed": "shard"}
        blocks = (
            predict_layout(shapes[name], mesh_shape, spec)[0]
            for name, spec in specs_by(rules).items()
        )
        if 16 * sum(map(math.prod, blocks)) <= memory:
            return mesh_shape, rules
    raise ValueError(f"{shapes} do not fit into {nodes * gpus} x {memory:.0f} bytes")
    ### END SOLUTION


# %% [markdown] hints="choose_layout"
# - Shard the batch over all mesh axes, and the weights over one that spans as few whole
#   nodes as can hold a copy.
# - Try 1, 2, ... nodes for a copy, if the number of nodes is a multiple of it. Your
#   `predict_layout` says what a GPU then holds of `w1` and `w2`.
# - With `used` nodes for a copy, `{"replica": nodes // used, "shard": used * gpus}` is
#   the mesh; `"embed": "shard"` is the rule.

# %% check="choose_layout"


# %%
@needs("choose_layout")
def _():
    for billions, width, layers in ((7, 8192, 52), (70, 16384, 130)):
        shapes = {"w1": (layers, width, width), "w2": (layers, width, width)}
        for nodes in (1, 4, 8, 16):
            try:
                # 60 of 80 GB: activations need the rest.
                found, rules = choose_layout(shapes, nodes, 8, 60e9)
                text = f"{found}, embed over {rules.get('embed')}"
            except ValueError:
                text = "does not fit"
            print(f"{billions:2} billion on {nodes:2} x 8 H100s: {text}")


# %% [markdown] built="choose_layout"
# A copy of the 70 billion takes 1,117 GB. Two nodes have 960; three have 1,440, but 4,
# 8 and 16 are no multiples of 3, so four nodes hold a copy.

# %% [markdown]
# ## 9. The model from the beginning, planned
#
# `plan` compiles your step for GPUs that are not here, from shapes alone, and prices the
# program: what a GPU holds, what it sends over which link, and how long the step takes,
# by [a simple
# model](https://github.com/distributed-jax-course/distributed-jax-course/blob/main/docs/planning.md).
# (It prices the CPU's all-reduce of section 7 as a reduce-scatter. In plain JAX,
# `compile().memory_analysis()` and `.cost_analysis()` give raw figures.)
#
# **Predict, then run.** The cell plans your `fsdp_step` in the layout of your
# `choose_layout`, for 8 and for 64 H100s, with 4,096 tokens (rows of `x`) for each GPU.
# Does it fit? Is the step bound by computing, by NVLink or by the network?


# %%
def plan_training(on, mesh_shape, rules, tokens):  # with your fsdp_step; W = 8192
    names = tuple(mesh_shape)
    mesh = make_mesh(tuple(mesh_shape.values()), names, planned_devices(on))
    shardings, state, x = shapes_of(mesh, 52, 8192, tokens * mesh.size, rules)
    return plan(fsdp_step(shardings), state, x, x, on=on, tell_s=60)


def sent_over(link, found):  # in a step, by one GPU, in GB
    chip = found.on.chip
    rate = chip.link_rate if link == "node" else chip.network_rate
    return found.links[link] * rate / 1e9


def show_plan(found):
    held, verdict = found.num_bytes_held / 1e9, "fits" if found.fits else "too much"
    print(f"{found.on.name}: {held:.0f} of 80 GB, {verdict}; bound by {found.bound}")
    names = {"node": "NVLink", "network": "the network"}
    for link, seconds in found.links.items():
        over = f"over {names[link]}: {seconds:.2f} s"
        print(f"  sends {sent_over(link, found):.1f} GB {over}")
    print(f"  products take {found.compute:.2f} s; a step takes {found.seconds:.2f} s")


# %%
@needs("fsdp_step", "choose_layout")
def _():
    shapes = {"w1": (52, 8192, 8192), "w2": (52, 8192, 8192)}
    for on, nodes in (("h100:8", 1), ("h100:8x8", 8)):
        mesh_shape, rules = choose_layout(shapes, nodes, 8, 60e9)
        found = plan_training(on, mesh_shape, rules, tokens=4096)
        show_plan(found)
    draw_plan(found, "Your step for 7 billion parameters on 64 H100s")


# %% [markdown]
# It fits. Each GPU holds 10.5 GB of state, 0.3 GB of batch and 20.5 GB of temporary
# arrays: 3.5 GB of gradients, the rest mostly activations. Products take 0.43 s and other
# operations 0.05; half of the sending hides, and the step takes 0.56 s. On eight machines
# the all-reduce of the gradients also sends 6 GB over the network, and in this plan none
# of that hides.
#
# From how many tokens on does computing take as long as sending? A token costs 6 FLOPs
# per parameter (2 forward, 4 backward), FSDP sends three times 7/8 of the weights, and
# the number of parameters cancels.


# %%
def tokens_to_match(chip, passes, num_devices, bytes_per_number=4):
    sent = passes * (num_devices - 1) / num_devices * bytes_per_number  # a parameter
    # FLOPs a second of float32 products (TF32), and the share that programs reach.
    return sent / chip.link_rate * chip.flops_32 * chip.reached / 6


for name, passes in (("data parallel", 2), ("FSDP", 3)):
    tokens = tokens_to_match(CHIPS["h100"], passes, 8)
    print(f"{name}: {math.ceil(tokens)} tokens per GPU")


@needs("fsdp_step")
def _():
    rules = {"batch": "gpu", "embed": "gpu"}
    for tokens in (512, 1539, 4096):
        found = plan_training("h100:8", {"gpu": 8}, rules, tokens)
        times = f"computing {found.compute:.2f} s, sending {found.links['node']:.2f} s"
        print(f"{tokens:4} tokens: {times} by the plan")


# %% [markdown]
# The plan of your program agrees with the formula: what is sent does not grow with the
# tokens. With one GPU per node and 50 GB/s, it would take nine times as many.
# This answers the opening question: no line of the step changed, and the losses stayed
# the same (section 7). What it costs:
#
# | 7 billion parameters, 8 H100s | data parallel | FSDP |
# |---|---|---|
# | weights, gradients, Adam on a GPU | 112 GB: does not fit | 14 GB |
# | sent per step and GPU, in float32 | 49 GB | 73 GB |
# | tokens per GPU from which computing takes longer | 1,026 | 1,539 |

# %% [markdown]
# ## Recap
#
# - A mesh and a spec make a sharding, and computation follows data.
# - The compiler inserts the collectives. Memory and traffic are for you to check.
# - FSDP, tensor parallelism and HSDP are tables of rules for one step. In larger models
#   constrain activations, too: the compiler may gather them instead of weights.

# %% [markdown]
# ## Three questions
#
# **1. `x` is `f32[16, 8]` on a mesh `data=4, model=2`, sharded by `P("model")`. What
# does a device hold?**
#
# <details><summary>f32[4, 8]</summary>
#
# `"model"` has two devices.
#
# </details>
# <details><summary>f32[8, 8], with four replicas of each block</summary>
#
# Right. The devices along `"data"` hold the same block.
#
# </details>
# <details><summary>f32[8, 4]</summary>
#
# The first entry belongs to axis 0.
#
# </details>

# %% [markdown]
# **2. Parameters replicated on 8 devices, the batch sharded. What does `jit` do with the
# gradient of a mean over the batch?**
#
# <details><summary>It inserts an all-reduce; the gradient is as on one device</summary>
#
# Right. It computes what the program says, wherever the arrays are.
#
# </details>
# <details><summary>It inserts an all-reduce; the gradient is 8 times as large</summary>
#
# `jnp.mean` divides by all rows, not by those of one device.
#
# </details>
# <details><summary>Each device has its own gradient until you call <code>pmean</code></summary>
#
# An array has one value, and `jit` binds no axis name.
#
# </details>

# %% [markdown]
# **3. `w1` is column-parallel, `w2` is row-parallel. Why this pair?**
#
# <details><summary>The hidden layer is never sent: one all-reduce per layer is enough</summary>
#
# Right. The hidden units that a device computes are those that its part of `w2` needs.
#
# </details>
# <details><summary>Splitting only one of them would give wrong values</summary>
#
# Values come out right in any layout; the traffic differs.
#
# </details>
# <details><summary>So that nothing is sent at all</summary>
#
# Each device ends with one term of a sum.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [JAX on parallel
#   programming](https://docs.jax.dev/en/latest/201/sharding.html).
# - [Flax on many
#   devices](https://flax.readthedocs.io/en/latest/guides/flax_gspmd.html); its model is
#   in `solutions/references/dot_relu_dot.py`.
# - [How to Scale Your Model](https://jax-ml.github.io/scaling-book/), a book.
#
# Older code has other names: `pjit` for `jax.jit`, `in_axis_resources=` for
# `in_shardings=`, `with mesh:` for `jax.set_mesh(mesh)`, `ShardedDeviceArray` for
# `jax.Array`, `device_put_replicated` for `jax.device_put`.
#
# **Next**: [lesson 5](05_full_pipeline.ipynb), or the second part below.

# %% [markdown]
# **Your score.** Run the scorecard again after the second part. Save the notebook, then
# run `make grade` in a terminal: it shows the same cards.

# %% scorecard=true

# %% [markdown]
# ## Going further
#
# Can you do better than the compiler? Large runs accumulate gradients: a GPU takes,
# say, eight microbatches before each step. The cell below writes that under `jit`, with
# plain SGD, and plans it for the 7 billion parameters on 64 GPUs. One all-reduce of the
# summed gradients, of which each GPU holds an eighth, would do: 6 GB over the network.
#
# **Predict, then run.** How much does the compiler's program send over it, with weights
# sharded over all GPUs (FSDP), and within each node (HSDP)?


# %%
def accumulated_step(params, xs, ys, lr, mesh):  # xs, ys: f32 (microbatches, B, W)
    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(params, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
    (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
    params = jax.tree.map(lambda p, g: p - lr * g / len(xs), params, grads)
    return params, loss / len(xs)


# %%
def plan_accumulated(step, axes, on="h100:8x8"):  # weights sharded over axes
    mesh = make_mesh((8, 8), ("node", "gpu"), planned_devices("h100:8x8"))
    shape = functools.partial(jax.ShapeDtypeStruct, dtype=np.float32)
    specs = specs_by({"embed": axes})
    on_mesh = {name: NamedSharding(mesh, P(*spec)) for name, spec in specs.items()}
    params = {name: shape((52, 8192, 8192), sharding=s) for name, s in on_mesh.items()}
    rows = NamedSharding(mesh, P(None, ("node", "gpu")))
    xs = shape((8, 64 * 4096, 8192), sharding=rows)
    run = jax.jit(
        lambda params, xs, ys: step(params, xs, ys, 0.1, mesh),
        out_shardings=(on_mesh, None),
        donate_argnums=0,
    )
    return plan(run, params, xs, xs, on=on, tell_s=60)


for name, axes in (("FSDP", ("node", "gpu")), ("HSDP", "gpu")):
    found = plan_accumulated(accumulated_step, axes)
    print(f"{name}: {sent_over('network', found):.0f} GB over the network")

# %% [markdown]
# For every microbatch FSDP gathers the weights twice and reduce-scatters the gradients
# once, 3.05 GB over the network each time: 8 x 3 x 3.05 = 73 GB. HSDP gathers within the
# nodes, but this compiler all-reduces the gradients between them in every microbatch:
# eight times what is needed. (A GPU's or a TPU's has [a
# pass](https://github.com/openxla/xla/issues/6750) that moves simple cases out of the
# loop.)

# %% [markdown]
# ## 10. Explicit axes: layouts in types
#
# So far the compiler decided about everything that you had not said: that is what a
# mesh axis of type **Auto** means. On an axis of type **Explicit** the layout is part
# of an array's *type*: it is known while JAX traces, it follows fixed rules, and where
# the rules leave a choice, JAX asks you instead of guessing. Since JAX 0.9,
# `jax.make_mesh` makes Explicit axes by default.
#
# - `jax.set_mesh(mesh)` makes a mesh current; `jax.typeof(x)` shows a type, such as
#   `float32[8@data,16@model]`;
# - `reshard(x, spec)` moves an array, `out_sharding=` decides where JAX asks, and
#   inside `auto_axes(f, out_sharding=...)` the compiler decides.
#
# **Predict, then run.** Which line is refused?

# %%
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
# `a @ b` contracts an axis that is sharded in both operands, and JAX asks how the sum
# over devices should be sharded. (For `a.sum(0)` the rule decides: replicated over
# `data`.) The zeros have the type of `a`, so the mistake of section 6 cannot happen
# here. On Explicit axes `with_sharding_constraint` only asserts.

# %% [markdown]
# ### Exercise 4.6: explicit_mlp
#
# On Auto axes, a layout that nobody chose is found in a profile, weeks later. On
# Explicit axes you see it in `jax.typeof` before anything runs, or JAX refuses the
# line.
#
# Write `explicit_mlp(params, x)`. It computes `mlp(params, x)` with the layout of
# exercise 4.2, this time in types: inside `jit`, under `jax.set_mesh` of a mesh with
# Explicit axes `"data"` and `"model"`. The weights have the types of the docstring; `x`
# may arrive in any layout. `auto_axes` and `jax.shard_map` are allowed.
#
# ```python
# with jax.set_mesh(mesh):                 # 2 x 4 devices, Explicit
#     y = jax.jit(explicit_mlp)(params, x) # x: f32[24@data, 8]
#     jax.typeof(y)                        # float32[24@data,8]
# ```
#
# - [same numbers] `y` is `mlp(params, x)`.
# - [own rows, own units] The hidden layer is `f32[B@data, H@model]`: each device
#   computes its own rows of its own hidden units.
# - [output by rows] `y` has the type `f32[B@data, W]`.
# - [any layout of x] The numbers and the type of `y` are the same for an `x` that is
#   replicated, or sharded in any other way.
# - [one all-reduce per layer] Nothing else is sent, except what one `reshard` of `x` to
#   `f32[B@data, W]` sends.


# %% exercise="explicit_mlp" minutes=20 difficulty=2
def explicit_mlp(params, x):
    """Computes the model with weights and batch sharded, on Explicit axes.

    Args:
        params: {"w1": f32[L, W, H@model], "w2": f32[L, H@model, W]}.
        x: f32 (B, W), in any layout.

    Returns:
        y: f32[B@data, W].
    """
    ### BEGIN SOLUTION
    # The first product needs no word from us: its type follows from its operands. The
    # second contracts H, which is sharded in both, so we say how the sum is sharded.
    # Without the reshard, an x sharded over "model" would clash with the weights.
    rows = P("data", None)

    def layer(x, w):
        hidden = jax.nn.relu(x @ w["w1"])  # f32[B@data, H@model]
        return jnp.matmul(hidden, w["w2"], out_sharding=rows), None

    return jax.lax.scan(layer, reshard(x, rows), params)[0]
    ### END SOLUTION


# %% [markdown] hints="explicit_mlp"
# - Write `mlp` again, and `print(jax.typeof(hidden))` inside: it works while `jit`
#   traces.
# - The carry of a scan keeps one type: give `x` that of the output before the scan,
#   with `reshard`; then the type of `x @ w["w1"]` is clear.

# %% check="explicit_mlp"


# %%
def on_mesh(function, *arrays, specs):  # under a mesh of 2 x 4 devices, Explicit
    axes = ("data", "model")
    with jax.set_mesh(jax.make_mesh((2, 4), axes, axis_types=explicit)):
        placed = [reshard(a, P(*spec)) for a, spec in zip(arrays, specs, strict=True)]
        return jax.jit(function)(*placed)


@needs("explicit_mlp")
def _():
    def layouts_of(w1, w2, x):
        y = explicit_mlp({"w1": w1, "w2": w2}, x)
        print(f"  x: {jax.typeof(x)!s:<28}y: {jax.typeof(y)}")
        return y

    params, x, _ = mlp_case(9, 24, 8, 48)
    weights = (None, None, "model"), (None, "model", None)
    for spec in ((), ("data",), (("data", "model"),)):
        on_mesh(layouts_of, params["w1"], params["w2"], x, specs=(*weights, spec))


# %% [markdown] built="explicit_mlp"
# The two constraints of each layer have become one argument. Leave it out and read the
# error: it names both operands and the axis.

# %% [markdown]
# **A collective that nobody wanted.** On Auto axes, XLA prints *Involuntary full
# rematerialization* ([an open issue](https://github.com/openxla/xla/issues/15207)) when
# it can reshard an array only by copying all of it to every device. Look for that
# all-gather in `.compile().as_text()`, whose `metadata` names your line, and constrain
# the array before it. On Explicit axes, `jax.sharding.no_collectives` of JAX 0.12
# refuses it while JAX traces.
#
# <!-- jax.sharding.no_collectives: JAX 0.12.0, jax/_src/config.py. -->

# %% [markdown]
# ## 11. Collectives by hand
#
# You write a ring, a pipeline, or a collective that the compiler puts into the wrong
# loop, with `jax.shard_map`, as in lesson 2.

# %% [markdown]
# ### Exercise 4.7: sharded_matmul
#
# The row-parallel layer of section 5 ended with an all-reduce, after which every device
# holds the full sum. [Megatron's sequence parallelism](https://arxiv.org/abs/2205.05198)
# replaces it with a reduce-scatter: each device receives the sum of *its* rows. It sends
# half as much (the next layer's all-gather sends the rest), and the activations in
# between take an eighth of the memory.
#
# Write `sharded_matmul(a, b, num_devices)`. It multiplies `a: (M, K)` by `b: (K, N)` on
# the first `num_devices` devices with `jax.shard_map`. The *contracted* axis `K` is
# sharded, and the product comes out sharded by rows.
#
# ```python
# c = sharded_matmul(a, b, 8)              # a: f32[16, 24], b: f32[24, 5]
# c.addressable_shards[0].data.shape       # (2, 5): two of the 16 rows
# ```
#
# - [same product] The result is `a @ b`.
# - [own part of K] Each device gets and multiplies its part of `K` only.
# - [one reduce-scatter] Nothing else is sent.
# - [rows come out] The result is sharded by rows over these devices.


# %% exercise="sharded_matmul" minutes=15 difficulty=2
def sharded_matmul(a, b, num_devices):
    """Multiplies matrices whose common axis is sharded.

    Args:
        a: f32 (M, K).
        b: f32 (K, N).
        num_devices: D; K and M are multiples of it.

    Returns:
        a @ b, f32 (M, N), sharded by rows over D devices.
    """

    ### BEGIN SOLUTION
    # By hand, since a compiler may choose an all-reduce and a slice, as XLA's for CPUs
    # does. psum_scatter is the reduce-scatter; its transpose, the all-gather, is what
    # the backward pass sends, and what opens Megatron's next column-parallel layer.
    def multiply(a_block, b_block):
        part = a_block @ b_block  # f32[M, N], one term of the sum over K
        return jax.lax.psum_scatter(part, "i", tiled=True)

    mesh, specs = make_mesh((num_devices,), ("i",)), (P(None, "i"), P("i", None))
    mapped = jax.shard_map(multiply, mesh=mesh, in_specs=specs, out_specs=P("i", None))
    return jax.jit(mapped)(a, b)
    ### END SOLUTION


# %% [markdown] hints="sharded_matmul"
# - `in_specs` shard `a` by columns and `b` by rows. What shape has the product of two
#   blocks, and how does it relate to the result?
# - It is one term of the sum over `K`. `jax.lax.psum_scatter(part, "i", tiled=True)`
#   sums the terms and leaves each device its rows; `out_specs` put them together.

# %% check="sharded_matmul"


# %%
@needs("sharded_matmul")
def _():
    product = sharded_matmul(np.ones((16, 8)), np.ones((8, 4)), 8)
    draw_array(product, "the product, by your function:")
    mesh = make_mesh((8,), ("i",))
    a, b = (
        jax.ShapeDtypeStruct(
            (4096, 4096), np.float32, sharding=NamedSharding(mesh, P(*spec))
        )
        for spec in ((None, "i"), ("i",))
    )
    full = jax.jit(jnp.matmul, out_shardings=NamedSharding(mesh, P()))
    for name, run in {
        "yours": lambda a, b: sharded_matmul(a, b, 8),
        "with an all-reduce": full,
    }.items():
        found = plan(run, a, b, on="h100:8", tell_s=60)
        kinds = ", ".join(one.kind for one in found.sent)
        print(f"{name:<18} {kinds}: {sent_over('node', found):.3f} GB on an H100")


# %% [markdown] built="sharded_matmul"
# The other half of Megatron's sequence parallelism is an all-gather of the rows before
# a product.

# %% [markdown]
# ## 12. A step that crosses the network once
#
# Where do the collectives of a step belong? Weights are gathered inside the loop over
# layers, along `"gpu"`; `jax.grad` turns each gather into a reduce-scatter of the
# gradients by itself. What crosses the network comes after all loops.
#
# Under `jit` the compiler gathered again for the backward pass. Here, `jax.grad` would
# keep all gathered weights. `jax.checkpoint(layer)` keeps only the layer's arguments,
# among them its own blocks of the weights: the backward pass runs the layer again,
# gathers included.
#
# The frame below maps with `check_vma=False`, so that JAX adds no `psum` of its own
# (lesson 3).

# %% [markdown]
# ### Exercise 4.8: hsdp_step
#
# PyTorch calls this layout `HYBRID_SHARD`; MaxText writes it as `ici_fsdp_parallelism`
# within `dcn_data_parallelism`.
#
# Write the body of `hsdp_step(params, xs, ys, lr, mesh)`: one step of SGD with the mean
# of `mlp_loss` over the microbatches `xs[0], xs[1], ...`. A GPU gets its blocks of the
# weights, sharded along `W` within the node, and its rows of every microbatch.
#
# ```python
# # 2 x 4 devices, ("node", "gpu"); w1: f32[3, 8@gpu, 16], xs: f32[2, 32@(node, gpu), 8]
# params, loss = hsdp_step(params, xs, ys, 0.1, mesh)
# params["w1"].addressable_shards[0].data.shape     # (3, 2, 16): as before the step
# ```
#
# - [same step] Parameters, sharded as before, and loss match those of a single device
#   that sees all microbatches.
# - [own rows] Each GPU computes its own rows of every microbatch.
# - [once between nodes] The nodes exchange only each GPU's own part of the gradients,
#   and the loss, all-reduced once in a step.
# - [gathers in the node] Weights are gathered and gradients reduce-scattered within the
#   node. Nothing else is sent.
# - [layer by layer] No device ever holds the gathered weights of all layers, forward or
#   backward.


# %% exercise="hsdp_step" minutes=40 difficulty=3
def hsdp_step(params, xs, ys, lr, mesh):
    """Takes one step with weights sharded within nodes, and replicated between them.

    Args:
        params: {"w1": f32[L, W@gpu, H], "w2": f32[L, H, W@gpu]}.
        xs, ys: f32[M, B@(node, gpu), W], M microbatches.
        lr: learning rate.
        mesh: devices of several nodes, with the axes "node" and "gpu".

    Returns:
        (params, loss): sharded as before; the mean loss before the step, f32 ().
    """
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):  # the blocks of one GPU
        ### BEGIN SOLUTION
        # The loss of own rows is divided by all of them, so that sums over devices are
        # means. The sum of gradients stays a GPU's own part until the loops are over.
        # FSDP2 in PyTorch does the same with set_requires_all_reduce(False).
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        loss, grads = jax.lax.psum(loss, mesh.axis_names), jax.lax.psum(grads, "node")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
        ### END SOLUTION

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% [markdown] hints="hsdp_step"
# - Write the layer first: two `jax.lax.all_gather(..., "gpu", axis=..., tiled=True)`,
#   then the products. `jax.checkpoint(layer)` goes into the scan over layers.
# - Divide the mean over own rows by the number of all GPUs (`mesh.size`) times that of
#   microbatches: then sums over devices are means. No `psum` inside the function that you
#   differentiate.
# - Accumulate as `accumulated_step` does. After the loop, `psum` the gradients over
#   `"node"` and the loss over both axes.

# %% check="hsdp_step"


# %%
@needs("hsdp_step")
def _():
    mesh = make_mesh((2, 4), ("node", "gpu"))
    params, xs, ys = mlp_case(0, 2 * 64, 64, 64, layers=3)
    xs, ys = xs.reshape(2, 64, 64), ys.reshape(2, 64, 64)
    curves = {"one device": [], "your hsdp_step, 2 x 4 devices": []}
    alone = jax.jit(functools.partial(accumulated_step, lr=0.3, mesh=None))
    ours = jax.jit(functools.partial(hsdp_step, lr=0.3, mesh=mesh))
    for (name, losses), step in zip(curves.items(), (alone, ours), strict=True):
        new = params
        for _ in range(30):
            new, loss = step(new, xs, ys)
            losses.append(float(loss))
        print(f"{name}: loss {losses[0]:.2f} to {losses[-1]:.2f}")
    draw_losses(curves, title="One step, two programs")


# %% [markdown] built="hsdp_step"
# Real trainers also gather in bfloat16, and let `jax.checkpoint` keep some activations,
# so that less is computed twice.

# %% [markdown]
# ## 13. Sending while computing
#
# In your step a layer's weights are gathered before they are used. While they travel,
# the compute units wait; while these work, the link is idle.
#
# A **collective matmul** works in pieces. A device multiplies the piece of `w` that it
# holds *while* the next piece travels around the ring: D products and D - 1 sends.
#
# **Predict, then run.** One product of a layer with `w: (4096, 4096)` in bfloat16,
# sharded over eight H100s, with 2,048 rows on each: a piece takes 9 microseconds to send
# and 11 to multiply. How much time do pieces save: about
# 1/8, 1/2 or 7/8?

# %%
guess = None  # your prediction, such as 0.5
chip, width, num_rows = CHIPS["h100"], 4096, 2048
send = 1e6 * 2 * width**2 / 8 / chip.link_rate  # of a piece, in microseconds
product = 1e6 * 2 * num_rows * width**2 / 8 / (chip.flops * chip.reached)
starts = [0.0]  # piece 0 is here, the others come
for piece in range(1, 8):
    starts.append(max(starts[-1] + product, piece * send))
gathered, pieces = 7 * send + 8 * product, starts[-1] + product
print(f"gathered first {gathered:.0f} microseconds, in pieces {pieces:.0f}")
prediction("the part of the time that is saved", round(1 - pieces / gathered, 2), guess)
bars = {
    "gathered first: link": [(0, 7 * send, "pieces 1 to 7 of w")],
    "gathered first: products": [(7 * send, 8 * product, "one product")],
    "in pieces: link": [(p * send, send, f"{p + 1}") for p in range(7)],
    "in pieces: products": [(t, product, f"{p}") for p, t in enumerate(starts)],
}
title = "A product with w sharded over 8 devices, 2,048 rows: device 0"
draw_timeline(bars, "microseconds", title)

# %% [markdown]
# Almost half of the time goes away, on paper.
#
# What can overlap is decided by **data flow**, not by the order of your lines: a
# product and a send, neither of which needs the other's result.

# %% [markdown]
# ### Exercise 4.9: overlapped_matmul
#
# XLA applies this trick ([published in
# 2023](https://dl.acm.org/doi/10.1145/3567955.3567959)) in some cases by itself, and
# PyTorch calls it *asynchronous tensor parallelism*. Where the compiler does not find
# it, you write the ring by hand.
#
# A matrix `W` is sharded by rows: device `d` holds piece `d`, `w: (K, N)`, and its own
# rows of `X`, `x: (M, D * K)`. Write `overlapped_matmul(x, w, axis_name)`, which runs
# on each device, under `pmap` or `shard_map`, and returns that device's rows of `X @
# W`. In each of `D` rounds, multiply the piece that is here by the columns of `x` that
# belong to it; in all but the last, also send the piece on.
#
# ```python
# # 8 devices, on each: x: f32[2, 24], w: f32[3, 5]; W is f32[24, 5]
# jax.pmap(lambda x, w: overlapped_matmul(x, w, "i"), "i")(xs, ws)   # f32[8, 2, 5]
# ```
#
# - [same product] Each device returns its rows of `X @ W`, for any number of devices
#   and any `axis_name`.
# - [no full copy of W] No array ever holds more than two pieces of `W`: each is
#   multiplied alone.
# - [sends wait for no product] A round's product and its send do not need each other: a
#   send takes pieces of `W` alone, and a round multiplies what an earlier round sent.
# - [number of sends] Each device sends `D - 1` pieces with `jax.lax.ppermute`, and
#   nothing else.
# - [no extra arithmetic] All products together take as many multiplications as `x @ W`,
#   within 10 percent.


# %% exercise="overlapped_matmul" minutes=30 difficulty=3
def overlapped_matmul(x, w, axis_name):
    """Multiplies by a sharded matrix, piece by piece, while the pieces travel.

    Args:
        x: f32[M, D * K], this device's rows.
        w: f32[K, N], piece d of W on device d: its rows d * K to (d + 1) * K - 1.
        axis_name: the name of the devices' axis, which has D devices.

    Returns:
        x @ W, f32[M, N].
    """
    ### BEGIN SOLUTION
    # Pieces go around the ring by one neighbor at a time, since each link then carries
    # one piece. Sends read only w, so the scheduler may start one before the product.
    # Libraries send half of each piece either way, which halves the time of the link.
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
# - A Python `for` over the D pieces is fine; begin with your own. Piece `p` belongs to
#   the columns `p * K` to `(p + 1) * K - 1` of `x`.
# - If each device sends to its left neighbour, device `d` holds piece `(d + step) % D`
#   at each step; `jax.lax.axis_index` and `jax.lax.axis_size` give `d` and `D`.
# - `jax.lax.dynamic_slice_in_dim(x, start, K, axis=1)` takes columns from a computed
#   start.

# %% check="overlapped_matmul"


# %%
def gathered_matmul(x, w, axis_name):
    return x @ jax.lax.all_gather(w, axis_name, tiled=True)


def plan_product(matmul, num_rows):  # of one layer, on eight H100s
    mesh = make_mesh((8,), ("i",))
    shape = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.bfloat16)
    x, w = (
        shape(sizes, sharding=NamedSharding(mesh, P("i")))
        for sizes in ((8 * num_rows, 4096), (4096, 4096))
    )
    run = functools.partial(matmul, axis_name="i")
    how = {"in_specs": P("i"), "out_specs": P("i"), "check_vma": False}
    program = jax.shard_map(run, mesh=mesh, **how)
    return plan(program, x, w, on="h100:8", tell_s=60)


# %%
@needs("overlapped_matmul")
def _():
    for num_rows in (512, 2048, 8192):
        for name, matmul in {
            "first": gathered_matmul,
            "yours": overlapped_matmul,
        }.items():
            found = plan_product(matmul, num_rows)
            sending = found.links["node"]
            hidden = (found.upper - found.seconds) / sending
            text = f"{1e6 * found.seconds:.0f} microseconds, {hidden:.0%} of sending hidden"
            print(f"{num_rows} rows, {name}: {text}")


# %% [markdown] built="overlapped_matmul"
# By the plan, pieces save less than a tenth with 512 or 2,048 rows, and with 8,192 they
# lose more than a third: every piece adds to the result in memory, which costs more than
# the sending that it hides. So libraries take few and large pieces, or split an axis that
# is not summed over.

# %% [markdown]
# ## 14. The bill
#
# The cell plans three steps for 64 H100s, first with the network of a DGX, then with
# one where eight GPUs share a card. **Predict, then run.** On
# which network does your step win?


# %%
@needs("hsdp_step")
def _():
    dgx = CHIPS["h100"]
    shared = dataclasses.replace(dgx, network_rate=dgx.network_rate / 8)
    for network, chip in (("a card each", dgx), ("a shared card", shared)):
        on = Cluster("h100:8x8", chip, (8, 8))
        for name, step, axes in (
            ("FSDP by jit", accumulated_step, ("node", "gpu")),
            ("HSDP by jit", accumulated_step, "gpu"),
            ("your HSDP", hsdp_step, "gpu"),
        ):
            found = plan_accumulated(step, axes, on)
            sent = sent_over("network", found)
            text = f"{sent:3.0f} GB over the network, {found.seconds:4.1f} s a step"
            print(f"{network}, {name:<12} {text}")


# %% [markdown]
# Your step sends a twelfth of what FSDP does over the network. With a card for each GPU
# it still loses, 5.0 s against 4.4, since it computes each layer's `x @ w1` twice (a
# policy that saves it would avoid that): what sends least is not always fastest. With a
# shared card your step is twice as fast. So plan, see what bounds the step, and write by
# hand what the compiler misses.
