# %% [markdown]
# # Lesson 4. The sharding API
#
# COLAB_BADGE
#
# You have a model of 7 billion parameters and a machine with eight H100 GPUs. Training
# with Adam in float32 needs 16 bytes for every parameter: 4 for the weight, 4 for its
# gradient, 8 for Adam's two moments. That makes 112 GB, and [one H100 has
# 80](https://www.nvidia.com/en-us/data-center/h100/). Together the eight have 640. What
# would you have to change in your training step so that each GPU keeps an eighth of the
# model, 14 GB, and the losses stay the same to the last printed digit?
#
# The answer of this lesson is: nothing in the step. You say how each array is *sharded*
# over the devices, `jax.jit` compiles one program for all of them, and the compiler
# inserts the collectives that you wrote by hand in lessons 2 and 3. The numbers come
# out right whatever you say. What you decide is how much memory a device needs and how
# much it sends, and this lesson measures both. In exercise 4.7 a training step of your
# own trains a fully sharded model on eight devices, and its loss curve is that of a
# single one.
#
# **After this lesson you can**
#
# - place any array on any mesh of devices, and say what each device holds;
# - train data parallel and compute tensor parallel with the same model code;
# - read from the compiled program what the devices send each other;
# - (second part) name axes by meaning and choose a layout by rules, train with FSDP,
#   work with layouts as types, write collectives by hand where the compiler's choice is
#   not good enough, and predict on an H100 or a TPU whether communication slows you
#   down.
#
# **You need** lessons 1 to 3. **Time**: about 90 minutes for the first part, with a
# pause. The second part takes two more sittings of 90 minutes.

# %% setup=true

# %% [markdown]
# ## 1. Mesh, spec, sharding
#
# Three words carry this lesson.
#
# - A **mesh** arranges devices in a grid and names the grid's axes. On the mesh below,
#   `"data"` has four positions and `"model"` has two.
# - A **spec**, `P(...)`, has one entry for each axis of an *array*: the mesh axis that
#   it is sharded over, a tuple of mesh axes (the first one cuts it, the next one cuts
#   each piece again), or `None`.
# - A **sharding** is the two together: `NamedSharding(mesh, spec)`. `jax.device_put(x,
#   sharding)` places `x` accordingly.


# %%
import functools
import math

import optax
from coursekit.compiled_program import CompiledProgram
from jax.sharding import AxisType, NamedSharding, auto_axes, reshard
from jax.sharding import PartitionSpec as P


def make_mesh(shape, names):  # section 9 explains the types
    # The first devices, in order; TPUs may be arranged by their network.
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))


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

# %% [markdown]
# Devices 0, 2, 4 and 6 are at position 0 of `"model"` and hold the same half of `w`:
# along a mesh axis that the spec does not name, an array is *replicated* (hatched in
# the picture). Entries that are missing at the end of a spec count as `None`, so `P()`
# replicates an array on every device. Each picture shows *one* `jax.Array`, with one
# shape and one value, wherever its pieces are.

# %% [markdown]
# **What holds for every exercise below**
#
# - [arguments stay] Your function does not modify, delete or donate its arguments,
#   unless the exercise asks for a donation.
# - [nothing is remembered] A call computes its result from its own arguments, whatever
#   was called before.
#
# Each exercise's table lists them with their share of the points.
#
# Unless an exercise says otherwise, arrays arrive unsharded, as NumPy arrays or as
# `jnp.ones` makes them.
#
# Several checks run your function a second time inside `jax.jit`, in order to read its
# program. So compute on the values of arrays with `jnp`, not with NumPy, `float()` or
# `if`. Use any of the usual ways to place an array: `jax.device_put`,
# `jax.lax.with_sharding_constraint`, `out_shardings=` with a sharding on an Auto mesh,
# or `jax.shard_map`.
#
# <details><summary>Four rarer ways that the checks cannot trace</summary>
#
# `jnp.zeros(..., device=)`, `jax.make_array_from_process_local_data`, a program that
# you compile yourself (`.lower(...).compile()`), and `jax.jit(...,
# out_shardings=P(...))` under `jax.set_mesh` with Explicit axes.
#
# </details>

# %% [markdown]
# ### Exercise 4.1: make_mesh_and_place
#
# Every training script on many devices begins with the same two lines: arrange the
# devices in a mesh, place the arrays on it. In MaxText and in most Flax examples the
# shape and the axis names of that mesh come from a configuration file, and changing
# `data=8` to `data=2, model=4` there changes the kind of parallelism without touching
# the model. The same lines place arrays on 8 simulated devices and on the [8,960 chips
# of a TPU v5p pod](https://cloud.google.com/tpu/docs/v5p).
#
# Write `make_mesh_and_place(x, shape, axis_names, spec)`. It builds a mesh of `shape`
# with these axis names and returns `x` placed on it by `spec`, which is a plain tuple.
# Every sharded axis of `x` divides evenly.
#
# ```python
# x = np.ones((8, 16), np.float32)
# y = make_mesh_and_place(x, (4, 2), ("data", "model"), ("data", "model"))
# y.addressable_shards[0].data.shape      # (2, 8): one device's block
# ```
#
# - [first devices] The mesh takes the first devices of the machine, in order, as in the
#   picture above, and `x` is sharded over it as `spec` says.
# - [same numbers] The values and the dtype of `x` do not change.
# - [mistakes raise] A mesh that needs more devices than there are, or a name in `spec`
#   that the mesh does not have, raises a `ValueError` (JAX's own will do).


# %% exercise="make_mesh_and_place" minutes=10 difficulty=1
def make_mesh_and_place(x, shape, axis_names, spec):
    """Places an array on a mesh of the first devices.

    Args:
        x: array (...), in NumPy or on the first device.
        shape: devices along each mesh axis, such as (4, 2).
        axis_names: the names of the mesh axes, such as ("data", "model").
        spec: for each axis of x a mesh axis, a tuple of them, or None.

    Returns:
        The array, sharded over the mesh.
    """
    ### BEGIN SOLUTION
    # device_put takes the array as it is, cuts it and sends each device its block.
    # In several processes, each of which has only a part of the data, one would call
    # jax.make_array_from_process_local_data with the same sharding instead.
    mesh = make_mesh(shape, axis_names)
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))
    ### END SOLUTION


# %% [markdown] hints="make_mesh_and_place"
# - `make_mesh` above takes the first devices, and refuses to make a mesh that needs
#   more than there are.
# - `P(*spec)` makes a spec of the tuple; `NamedSharding` refuses names that its mesh
#   does not have.
# - `jax.device_put(x, NamedSharding(mesh, P(*spec)))` places the array.

# %% check="make_mesh_and_place"

# %% [markdown] built="make_mesh_and_place"
# These two lines are the entrance to everything that follows: an array that knows its
# sharding can go into any function, and `jax.jit` will compile for the devices that
# hold it. In Flax the same happens through `nnx.get_named_sharding` or
# `nn.get_sharding`; in PyTorch the counterpart is `distribute_tensor(x, device_mesh,
# placements)`, which returns a `DTensor`. Try `("model", "data")` as an entry of the
# spec, and then the other order: the blocks are the same, on other devices.

# %% [markdown]
# ### Exercise 4.2: predict_layout
#
# Before you rent 512 GPUs you want to know what each of them will hold, and your laptop
# cannot build that mesh. Fortunately a layout is arithmetic: no device is needed to
# compute it. A weight of the MLP in [Llama 3 70B](https://arxiv.org/abs/2407.21783) is
# a matrix of 8,192 x 28,672. In bfloat16 that makes 470 MB; sharded over a mesh of 8 x
# 8 by `P("data", "model")`, a device holds a block of 1,024 x 3,584, or 7.3 MB.
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
# - [block and count] Both numbers are those of a `NamedSharding` with this mesh and
#   spec.
# - [no devices needed] The mesh may be larger than this machine.
# - [short specs] `spec` may have fewer entries than `shape`: the missing ones are
#   `None`.
# - [mistakes raise] An axis that does not divide evenly, or a name that the mesh does
#   not have, raises a `ValueError`.


# %% exercise="predict_layout" minutes=10 difficulty=1
def predict_layout(shape, mesh_shape, spec):
    """Predicts how a sharding splits an array.

    Args:
        shape: the shape of the array.
        mesh_shape: devices along each mesh axis, such as {"data": 4, "model": 2}.
        spec: for each array axis a mesh axis, a tuple of them, or None. No mesh axis
            appears twice.

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
# - The number of different blocks is the product of all cuts. Mesh axes that the spec
#   does not name only add replicas.

# %% check="predict_layout"

# %% [markdown] built="predict_layout"
# With this function you can plan a run on paper: multiply the block by the bytes of a
# number, sum over all arrays, and compare with the memory of the chip. JAX itself
# answers with `sharding.shard_shape(shape)`, even for a `jax.sharding.AbstractMesh`
# without devices, and `jax.eval_shape` supplies the shapes of a model that you cannot
# build yet. Exercise 4.6 puts the two together.

# %% [markdown]
# ## 2. Moving an array, and what it costs
#
# When the output of one layer has another sharding than the next one needs, the
# compiler has to move data. People call this *resharding*, and between the layers of a
# model *activation resharding*. How expensive it is depends on the pair of layouts, and
# you can read it from the **compiled** program: `compiled(f, *arrays)` below lists its
# collectives. (In plain JAX, `jax.jit(f).lower(...).compile().as_text()` shows them.)
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
# From replicated to rows nobody sends anything: each device already has its rows and
# drops the others. From rows to replicated, every device's 8 KiB must reach the seven
# others. Between rows and columns a device keeps an eighth of what it has and sends the
# rest.

# %% [markdown]
# ## 3. Computation follows data
#
# Under `jax.jit` you do not say where an operation runs. It runs where its inputs are,
# and the compiler chooses the shardings of everything in between.
#
# The model of this lesson has `L` layers `relu(x @ w1) @ w2`, the MLP block of a
# transformer. The layers are stacked, `w1: (L, W, H)` and `w2: (L, H, W)`, so that
# `lax.scan` can run over them: XLA then compiles one layer, not 48.
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
# whose rows are on eight devices, so the compiler inserted an all-reduce for each array
# of weights. Note that `jnp.mean` means the mean over the *whole* batch, because an
# array under `jit` is one array: there is no eightfold gradient as in lesson 3.

# %% [markdown]
# ### Exercise 4.3: data_parallel_step
#
# This is **data parallelism**, the first thing everybody does with a second GPU;
# PyTorch calls it DDP. In lesson 3 you placed the `pmean` yourself and saw what happens
# without it. Here the sharding of the inputs says it all. The price is the all-reduce
# of the gradients: for 7 billion parameters in bfloat16 (14 GB), each of eight devices
# sends 24.5 GB in every step. That takes 54 milliseconds over NVLink (450 GB/s in each
# direction) and 490 over a network card of [400
# Gbit/s](https://www.nvidia.com/en-us/networking/ethernet-adapters/).
#
# Write `data_parallel_step(params, x, y, lr)`. It takes one SGD step on `mlp_loss` and
# returns `(params, loss)`, where the loss is the one *before* the step. The caller has
# placed the arrays: parameters replicated, `x` and `y` sharded by rows.
#
# ```python
# params, loss = data_parallel_step(params, x, y, 0.05)    # x, y: f32[32, 6] by rows
# params["w1"].is_fully_replicated                         # True: as it was before
# ```
#
# - [same step] Parameters and loss match those of a single device that sees the whole
#   batch.
# - [one all-reduce] Each device computes its own rows, and nothing is sent but
#   gradients and loss, all-reduced once (all together or one array at a time).
# - [replicated result] The new parameters and the loss come out replicated on the same
#   devices.
# - [no recompilation] The step is one compiled program, which another `jit` may call,
#   too, and another learning rate (a Python `float`) or a new batch of the same shape
#   does not compile it again.


# %% exercise="data_parallel_step" minutes=10 difficulty=1
@jax.jit
def data_parallel_step(params, x, y, lr):
    """Takes one SGD step; the shardings of the arrays say where.

    Args:
        params: {"w1": f32 (L, W, H), "w2": f32 (L, H, W)}, replicated.
        x, y: f32 (B, W), sharded by rows.
        lr: learning rate, a float.

    Returns:
        (params, loss): replicated; the loss before the step, f32 ().
    """
    ### BEGIN SOLUTION
    # The step of one device with the whole batch: shardings are not its business.
    # A real trainer would also donate params (exercise 4.7), and call Optax here.
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
    ### END SOLUTION


# %% [markdown] hints="data_parallel_step"
# - Write the step of **one** device that has the whole batch.
# - `jax.value_and_grad(mlp_loss)(params, x, y)` returns the loss and the gradients.
# - Then `jax.tree.map(lambda p, g: ..., params, grads)`. There is no `pmean`: `jit`
#   binds no axis name, and `jnp.mean` already is the mean over all rows.

# %% check="data_parallel_step"

# %% [markdown] built="data_parallel_step"
# You wrote a step for one device, and it ran on eight. Because the function knows
# nothing about devices, it would run unchanged on one, on 8,960, or with the parameters
# sharded too, and that is the point of the sharding API: model code and layout are
# written by different people at different times. PyTorch's DDP reaches the same program
# from the other side, by hooks that all-reduce gradients as the backward pass produces
# them.

# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above again: what follows needs their names.

# %% [markdown]
# ## 4. Constraints
#
# The compiler chooses the shardings inside `jit`, and sometimes it chooses badly. Then
# you insist: `jax.lax.with_sharding_constraint(x, sharding)` says how an intermediate
# array must be sharded. Large models constrain their activations after every block for
# this reason.
#
# **Predict, then run.** The batch arrives replicated on 8 devices. Which fraction of
# the work does a device do if a constraint shards the batch? And which if `device_put`
# inside `jit` does?


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
#
# ## 5. Tensor parallelism
#
# Data parallelism does not help when the model itself is too large, or when there are
# more devices than rows. **Tensor parallelism** shards the *weights*.
# [Megatron-LM](https://arxiv.org/abs/1909.08053) found the pairing that everybody uses
# for an MLP: the first matrix is **column-parallel**, the second **row-parallel**, over
# the same mesh axis.
#
# With `w1` split by columns, each device computes its own hidden units in full. With
# `w2` split by rows, it multiplies exactly those units, so nothing is sent in between.
# Each device ends up with one *term of a sum* over the devices, and one all-reduce per
# layer adds the terms.

# %% [markdown]
# ### Exercise 4.4: tensor_parallel_mlp
#
# The MLP of Llama 3 70B has 28,672 hidden units; on the eight GPUs of a machine each
# computes 3,584 of them. The all-reduce is paid in activations, not in weights: with
# 8,192 tokens of 8,192 bfloat16 numbers, every device sends 235 MB per layer, half a
# millisecond over NVLink. That is why tensor parallelism stays inside a machine, and
# data parallelism goes between machines, on a mesh with two axes.
#
# Write `tensor_parallel_mlp(params, x, mesh_shape)`, which is called inside `jit`. It
# computes `mlp(params, x)` on a mesh `("data", "model")` and returns `(params, y)`,
# with the weights sharded as in the docstring. `params` and `x` arrive without a
# sharding, so you constrain them. To leave nothing to the compiler, also constrain the
# hidden layer to `P("data", "model")` and the output of each layer to `P("data",
# None)`. `B` divides by the devices along `"data"`, and `H` by those along `"model"`.
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
#   units.
# - [one all-reduce per layer] Nothing else is sent.


# %% exercise="tensor_parallel_mlp" minutes=20 difficulty=2
def tensor_parallel_mlp(params, x, mesh_shape):
    """Computes the model with weights and batch sharded, inside `jit`.

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
    # Three constraints per layer are more than today's compiler needs here; they make
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
# - Constrain the weights first: `w1` to `P(None, None, "model")`, because its first
#   axis counts the layers. Inside `jit`, `device_put` would shard nothing.
# - Write the layer of `mlp` again: `on(jax.nn.relu(x @ w["w1"]), "data", "model")`,
#   then the second product in the same way, by `"data", None`.
# - Constrain `x` before the scan too, to `P("data", None)`.

# %% check="tensor_parallel_mlp"

# %% [markdown] built="tensor_parallel_mlp"
# This is Megatron's MLP. `ColumnParallelLinear` and `RowParallelLinear` in
# [Megatron-LM](https://github.com/NVIDIA/Megatron-LM) are the two halves, with the
# all-reduce written out; PyTorch has `ColwiseParallel` and `RowwiseParallel`. The
# attention block is split the same way, by heads, and the embedding table by vocabulary
# (*vocabulary-parallel*), so a transformer layer costs two all-reduces forward. Try to
# drop the constraint on the hidden layer and look at the card: the compiler usually
# finds it by itself, and *usually* is why the constraint is there.

# %% [markdown]
# ## Recap
#
# - A mesh and a spec make a sharding, and computation follows data.
# - The compiler inserts the collectives. Memory and traffic are for you to check.
# - A constraint decides where otherwise the compiler would.

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
# **2. Parameters replicated on 8 devices, the batch sharded. What does `jit` make of
# the gradient of a mean over the batch?**
#
# <details><summary>It inserts an all-reduce; the gradient is that of one device</summary>
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
# - [Flax on many devices](https://flax.readthedocs.io/en/latest/guides/flax_gspmd.html)
#   trains this model; here it is in `solutions/references/dot_relu_dot.py`.
# - [How to Scale Your Model](https://jax-ml.github.io/scaling-book/), the book to read
#   next.
#
# **Next**: [lesson 5](05_full_pipeline.ipynb).

# %% [markdown]
# ## Going further
#
# The first part ends here, and with it what a single machine with a small model needs.
# The second part is about the model from the beginning, the one that does not fit: axes
# with a meaning, a state that is created in place, FSDP; then layouts as types, and
# `shard_map`, for the cases in which you want to write the collectives yourself after
# all. It takes two sittings; section 9 is a good place to begin the second one. Its
# exercises count like all others, except the last, which is a bonus.

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
# **Moving a pmap program** to the sharding API is mostly deleting:
#
# | with `pmap` | with the sharding API |
# |---|---|
# | params stacked: `(8, ...)` | `device_put(params, everywhere)`: `(...)` |
# | batch reshaped: `(8, B / 8, ...)` | `device_put(batch, rows)`: `(B, ...)` |
# | `pmap(step, "i")` | `jit(step)` |
# | `lax.pmean(grads, "i")` | deleted |
#
# `everywhere` and `rows` are the shardings of section 2. The cells below train lesson
# 3's perceptron both ways, on 256 rows of 10 numbers, for 50 steps.


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
new, split = jax.device_put(params, everywhere), jax.device_put((x, y), rows)
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
# A transformer has dozens of parameters, and nobody wants to write a spec for each of
# them, let alone rewrite all specs for another layout. Large code bases therefore name
# each array axis by its *meaning*: here `w1` is `("layer", "embed", "hidden")`, and a
# batch is `("batch", "embed")`. A short table of **logical axis rules** then maps
# meanings to mesh axes, and a layout is such a table:
#
# | layout | rules |
# |---|---|
# | data parallel | batch → data |
# | tensor parallel | batch → data, hidden → model |
# | FSDP (section 8) | batch → data; for parameters, in a second table, embed → data |
#
# FSDP needs the second table because a batch has an axis `"embed"` too: one table would
# shard the batch twice over `"data"`. (Section 8 uses `("data", "model")` in place of
# `"data"` where nothing else needs `"model"`, in order to shard over all devices.)

# %% [markdown]
# ### Exercise 4.5: logical_to_spec
#
# Flax calls this function `logical_to_mesh_axes`, and
# [MaxText](https://github.com/AI-Hypercomputer/maxtext) keeps a list of such rules in
# its configuration. Whoever moves a run from one TPU v5p slice to another changes the
# list and not one line of the model.
#
# Write `logical_to_spec(names, rules)`. It returns the spec of one array as a plain
# tuple: for each name in `names`, what the rule with that name gives, which is a mesh
# axis, a tuple of them, or `None`. Then write `param_specs(tree, rules)`, which does
# the same for every array of a model: `tree` is made of dicts and lists, and its leaves
# are tuples of names.
#
# ```python
# rules = [("batch", "data"), ("hidden", "model"), ("vocab", ("data", "model"))]
# logical_to_spec(("batch", "embed"), rules)               # ("data", None)
# param_specs({"w1": ("layer", "embed", "hidden")}, rules)
#                                                          # {"w1": (None, None, "model")}
# logical_to_spec(("vocab", "hidden"), rules)              # ValueError: "model" twice
# ```
#
# - [one entry per axis] The spec has one entry for each name: what its rule says.
# - [first rule wins] If several rules have the name, the first one counts, even if it
#   says `None`.
# - [no rule, not sharded] A name without a rule, and a `None` among the names, become
#   `None`.
# - [no mesh axis twice] A mesh axis that would be used twice in one array, even by a
#   single rule, raises a `ValueError`.
# - [whole trees] `param_specs` returns a tree of specs with the same dicts and lists.


# %% exercise="logical_to_spec" minutes=15 difficulty=2
def logical_to_spec(names, rules):
    """Translates the names of an array's axes into a spec.

    Args:
        names: for each array axis its name, or None; a tuple.
        rules: pairs (name, axes), where axes is a mesh axis, a tuple of them, or None.

    Returns:
        A tuple with a mesh axis, a tuple of them or None for each name.
    """
    ### BEGIN SOLUTION
    # A mesh axis that is used twice is an error here, so that nobody trains in another
    # layout than the one they think of. Flax passes over the rule instead, and tries
    # the next one with the same name: its tables list fallbacks.
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
# - `next((axes for rule, axes in rules if rule == name), None)` finds the first rule
#   with that name.
# - Keep a list of the mesh axes that were used so far in *this* array. An entry may be
#   a string, a tuple of strings, or `None`.
# - `jax.tree.map(f, tree, is_leaf=lambda node: isinstance(node, tuple))` stops at
#   tuples, and calls `f` with each of them.

# %% check="logical_to_spec"

# %% [markdown] built="logical_to_spec"
# The model now says what its axes *mean*, and the table says where they go: two
# decisions, in two places. In Flax you annotate parameters with
# `nn.with_logical_partitioning` and hand over the table at the end; MaxText keeps it in
# `base.yml` under `logical_axis_rules`. A good next step is a rule for `"layer"`:
# mapped to a mesh axis it shards the stack itself, which is where pipeline parallelism
# begins (lesson 5).

# %% [markdown]
# ## 7. A state that is created in place
#
# A training state is more than its weights: Adam keeps two moments, `mu` and `nu`, of
# every parameter. For a model of 70 billion parameters weights and moments make 840 GB
# in float32. No GPU can hold that for a moment, not even in order to hand it out, so a
# script that starts with `params = init(key)` and shards afterwards is over after its
# first line.
#
# The way out is to let each device create its own part. `jax.eval_shape` returns the
# shapes of a function's results without computing them. From shapes and specs,
# `state_shardings` below makes a sharding for each leaf of the state; Optax's
# `tree_map_params` knows which leaves are moments, and gives each the sharding of its
# parameter.


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
# Write `init_sharded(key, num_layers, width, mesh_shape, axis_names, specs)`. It
# returns the state that `make_state(key, num_layers, width)` makes, on a mesh of the
# first devices, and no device ever holds more of a weight than its own block.
#
# ```python
# specs = {"w1": (None, "data", "model"), "w2": (None, "model", None)}
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


# %% exercise="init_sharded" minutes=20 difficulty=2
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
# - Inside a `jit` with `out_shardings`, each device draws its own part only.
# - With `init = lambda key: make_state(key, num_layers, width)`, `jax.eval_shape(init,
#   key)` gives the shapes that `state_shardings` needs. (As arguments of the jitted
#   function, `num_layers` and `width` would be traced, and a shape cannot be traced.)

# %% check="init_sharded"

# %% [markdown] built="init_sharded"
# Every large training script has this function. Flax's guides wrap `init` in a
# `jax.jit` with `out_shardings` and take the specs from `nn.get_partition_spec`; in
# PyTorch a model is built on the "meta" device, without memory, before `fully_shard`
# and `to_empty` give each GPU its part. The tree of shapes and shardings has a second
# use: it is exactly what Orbax wants in order to restore a checkpoint into another
# layout (lesson 5).

# %% [markdown]
# **Common mistake: an optimizer state that forgot its layout.** Four layers of width
# 1024 are created in place, and then Adam's state once more, by `jit` without
# `out_shardings`. **Predict, then run.** Where do Adam's 64 MiB go?


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
# Everything is on device 0. The moments start as zeros, which depend on no parameter's
# values: on Auto axes, inside `jit`, they follow no data. (Outside `jit`,
# `make_adam().init(params)` keeps the layout of the parameters, except for Adam's
# count.)

# %% [markdown]
# ## 8. The seven copies you do not need
#
# Data parallelism has an appetite that grows with the model. Every device keeps its own
# copy of the weights, the gradients and Adam's two moments: 16 bytes for every
# parameter, in float32. For the model from the beginning of this lesson that makes 112
# GB, on *each* device, before a single activation is stored. An H100 has 80.
#
# And the copies are identical. Eight devices that hold the same 112 GB hold seven
# copies too many. **ZeRO** ([Rajbhandari et al.,
# 2020](https://arxiv.org/abs/1910.02054)) gives them up one at a time: stage 1 shards
# Adam's moments over the devices, stage 2 the gradients too, stage 3 the weights
# themselves. Stage 3 is better known as **FSDP**, fully sharded data parallelism. With
# everything sharded over eight devices, 112 GB become 14.
#
# There is no magic in it. A device that needs a layer's weights has to fetch the other
# seven eighths first, once in the forward and again in the backward pass, and throws
# them away after use. So FSDP buys memory with communication. How much communication?
# First guess, then measure.
#
# The cell below compiles *the same* `train_step` five times for 2 x 4 devices, and only
# the shardings of its inputs change:
#
# - **data parallel**: the state is replicated, the batch is sharded over all 8;
# - **ZeRO-1**: Adam's moments are sharded over all 8 as well;
# - **FSDP**: so are the weights;
# - **tensor parallel**: section 5, with the batch over `"data"` and the hidden units
#   over `"model"`;
# - **both**: tensor parallel, and the other axis of the weights over `"data"`, which is
#   how large models are trained.
#
# **Predict, then run.** The weights take 32 MiB. In which layout does a device hold the
# least? In which does it send the most?


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
# The state of FSDP fell to an eighth; gradients and the layer that is being computed
# come on top, as temporaries. What about the traffic? Data parallelism all-reduces the
# gradients: 56 MiB leave each device in a step. FSDP gathers the weights twice and
# reduce-scatters the gradients once, 28 MiB each time: 84 MiB in all, half as much
# again. (The picture says 112, because the CPU's compiler writes the reduce-scatter as
# an all-reduce; the one for GPUs does not. For the same reason it says 84 for ZeRO-1,
# where a reduce-scatter and one gather make 56.)
#
# For 7 billion parameters in float32 that is 73.5 GB instead of 49, a difference of 54
# milliseconds a step over NVLink. This is why people shard weights over the fast links
# inside a machine, and think twice before they do it between machines. Section 12
# calculates when it hides behind the computation.
#
# Tensor parallelism sends the least here, because the batch has only 64 rows. It sends
# activations, which grow with the batch; the others send weights and gradients, which
# do not.

# %% [markdown]
# ### Exercise 4.7: fsdp_step
#
# Write `fsdp_step(shardings)`. It returns a training step `step(state, x, y) -> (state,
# loss)` with `mlp_loss` and `make_adam()`, where `loss` is the one before the update.
# The state is sharded as `shardings` says, before the step and after it; `x` and `y`
# are sharded by rows. You have seen all the parts: the step is `train_step` above, with
# targets `y`.
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


# %% exercise="fsdp_step" minutes=15 difficulty=2
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
# - The step itself is `train_step` with `y` in place of the second `x`. FSDP is in the
#   shardings, and in the `lax.scan` of `mlp`.
# - `jax.jit` takes `out_shardings=(shardings, None)`; `None` leaves the loss to the
#   compiler.
# - `donate_argnums=0` gives the old state's memory to the new one.

# %% check="fsdp_step"

# %% [markdown] built="fsdp_step"
# This is what the `fsdp` axis of MaxText and PyTorch's `fully_shard` do. They add
# overlap: while one layer computes, the weights of the next one are already on their
# way (exercise 4.10 shows how). Notice what you did *not* write: a single collective.
# If you move the loop over layers from `lax.scan` into a Python loop, the numbers stay
# right and the gathered weights stay in memory for the backward pass; try it, and look
# at the card. `jax.checkpoint` around each layer brings the second gather back.

# %% [markdown]
# **A good place for a pause.** Save the notebook. When you come back, first run all
# cells above again: what follows needs their names.

# %% [markdown]
# ## 9. Explicit axes: layouts in types
#
# So far the compiler decided about everything that you had not said, and you found out
# afterwards. That is what a mesh axis of type **Auto** means. On an axis of type
# **Explicit** the layout is part of an array's *type*: it is known while JAX traces, it
# follows fixed rules from operation to operation, and where the rules leave a choice,
# JAX asks you instead of guessing. Newer versions of `jax.make_mesh` make Explicit axes
# by default (`Mesh(...)` makes Auto ones).
#
# - `jax.set_mesh(mesh)` makes a mesh current: from then on a spec alone says where.
# - `jax.typeof(x)` shows the type, such as `float32[8@data,16@model]`.
# - `reshard(x, spec)` moves an array; `out_sharding=` decides where JAX asks.
# - `auto_axes(f, out_sharding=...)`: inside `f` the compiler decides.
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
# `a @ b` contracts an axis that is sharded in both operands. The result is a sum over
# devices, and JAX asks how it should be sharded. The zeros have the type of `a`, so the
# mistake of section 7 cannot happen here. On Explicit axes `with_sharding_constraint`
# moves nothing; it only asserts.

# %% [markdown]
# ### Exercise 4.8: explicit_mlp
#
# On Auto axes, a layout that nobody chose is found in a profile, weeks later: an
# all-gather of 470 MB in every layer that nobody had asked for. On Explicit axes you
# see it in `jax.typeof` before anything runs, or JAX refuses the line. This is the
# direction that JAX is taking, and the reason why exercise 4.4 comes once more.
#
# Write `explicit_mlp(params, x)`. It computes `mlp(params, x)` with Megatron's layout
# as exercise 4.4 does, this time in types. It is called inside `jit`, under
# `jax.set_mesh` of a mesh with Explicit axes `"data"` and `"model"`. The weights have
# the types of the docstring; `x` may arrive in any layout. `auto_axes` and
# `jax.shard_map` are allowed.
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


# %% exercise="explicit_mlp" minutes=15 difficulty=2
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
# - `reshard(x, P("data", None))` before the scan; then the type of `x @ w["w1"]` is
#   clear.
# - The second product needs `jnp.matmul(..., out_sharding=P("data", None))`.

# %% check="explicit_mlp"

# %% [markdown] built="explicit_mlp"
# Compare with exercise 4.4: three constraints per layer have become one argument, and
# JAX would have refused to run without it. Types also travel through `jax.grad` and
# `lax.scan`, so a layout mistake in a loop is an error in the line that makes it.
# [JAX's guide](https://docs.jax.dev/en/latest/201/sharding.html) has the
# rules of each operation. Try to leave `out_sharding` out and read the error: it names
# both operands and the axis.

# %% [markdown]
# ## 10. When to write the collectives yourself
#
# Most programs never need it. But a ring, a pipeline, a kernel that must overlap with
# its own communication, or a collective that the compiler insists on and you do not
# want: these are written with `jax.shard_map`, where the collectives of lesson 2 come
# back.
#
# The function that you give to `shard_map` sees one block, as under `pmap`, but the
# block keeps its sharded axis (`pmap` removes it). `in_specs` say how the arguments are
# sharded on the way in, `out_specs` how the blocks are put together.
#
# **Predict, then run.** The numbers 0 to 15 are sharded over four devices. What does
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
# The row-parallel layer of section 5 ended with an all-reduce, after which every device
# holds the full sum, although in a transformer the next operations (dropout, layer
# norm) treat each row by itself. [Megatron's sequence
# parallelism](https://arxiv.org/abs/2205.05198) replaces it by a reduce-scatter: each
# device receives the sum of *its* rows. It sends half as much as an all-reduce, and the
# activations in between take an eighth of the memory on eight devices.
#
# Write `sharded_matmul(a, b, num_devices)`. It multiplies `a: (M, K)` by `b: (K, N)` on
# the first `num_devices` devices with `jax.shard_map`. The *contracted* axis `K` is
# sharded, and the product comes out sharded by rows. `K` and `M` divide by the number
# of devices.
#
# ```python
# c = sharded_matmul(a, b, 8)              # a: f32[16, 24], b: f32[24, 5]
# c.addressable_shards[0].data.shape       # (2, 5): two of the 16 rows
# ```
#
# - [same product] The result is `a @ b`.
# - [own part of K] Each device multiplies its part of `K` only.
# - [one reduce-scatter] Nothing else is sent.
# - [rows come out] The result is sharded by rows over these devices.


# %% exercise="sharded_matmul" minutes=15 difficulty=3
def sharded_matmul(a, b, num_devices):
    """Multiplies matrices whose common axis is sharded.

    Args:
        a: f32 (M, K).
        b: f32 (K, N).
        num_devices: D, which divides K and M.

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
# - `in_specs` shard `a` by columns and `b` by rows. The product of two blocks has the
#   full shape `(M, N)`: it is one term of the sum over `K`.
# - `jax.lax.psum_scatter(part, "i", tiled=True)` sums the terms and leaves each device
#   its rows; `out_specs=P("i", None)` puts them together.

# %% check="sharded_matmul"

# %% [markdown] built="sharded_matmul"
# You have built the row-parallel half of Megatron's sequence parallelism. The
# column-parallel half is its mirror image: an all-gather of the rows, then a product
# with a block of columns. Together they send exactly what the two all-reduces sent
# before, with activations that are sharded throughout. On Explicit axes the same
# program is one line, `jnp.matmul(a, b, out_sharding=P("i", None))`; whether the
# compiler makes a reduce-scatter of it depends on the backend, and that is when you
# drop to `shard_map`.

# %% [markdown]
# ## 11. Sending while computing
#
# In section 8, a layer's weights were gathered before they were used. While they
# travel, the multipliers wait; while the multipliers work, the link is idle. The two
# could run at the same time, but not in a program that gathers first: no multiplication
# can start before all of `w` has arrived.
#
# A **collective matmul** works in pieces. A device multiplies the piece of `w` that it
# holds *while* the next piece travels around the ring: D products and D - 1 sends.
#
# **Predict, then run.** One product of a layer with `w: (4096, 4096)` in bfloat16,
# sharded over eight H100s, which send 450 GB/s and compute [989
# TFLOP/s](https://www.nvidia.com/en-us/data-center/h100/). How much time do pieces save
# with 2,048 rows per device: about 1/8, 1/2 or 7/8? And is it more or less with 8,192?


# %%
h100 = {"compute": 989e12, "memory": 3.35e12, "communication": 450e9}  # per second
width = 4096


def timeline(rows, num_pieces=8):  # in microseconds: when each product starts, ...
    send = 1e6 * 2 * width**2 / num_pieces / h100["communication"]
    product = 1e6 * 2 * rows * width**2 / num_pieces / h100["compute"]
    starts = [0.0]
    for piece in range(1, num_pieces):  # piece 0 is here, the others come
        starts.append(max(starts[-1] + product, piece * send))
    return np.array(starts), send, product


for count in (512, 2048, 8192):
    starts, send, product = timeline(count)
    gathered, pieces = 7 * send + 8 * product, starts[-1] + product
    print(
        f"{count} rows: gathered first {gathered:.1f} microseconds,",
        f"in pieces {pieces:.1f}: {1 - pieces / gathered:.0%} less",
    )

# %%
starts, send, product = timeline(2048)
bars = {
    "gathered first: link": [(0, 7 * send, "pieces 1 to 7 of w")],
    "gathered first: products": [(7 * send, 8 * product, "one product")],
    "in pieces: link": [(p * send, send, f"{p + 1}") for p in range(7)],
    "in pieces: products": [(t, product, f"{p}") for p, t in enumerate(starts)],
}
title = "A product with w sharded over 8 devices, 2,048 rows: device 0"
draw_timeline(bars, "microseconds", title)

# %% [markdown]
# At 2,048 rows a piece takes about as long to send as to multiply, so almost half of
# the time goes away. With more rows the products dominate and there is less to hide;
# with fewer the link does, and there is little to hide it behind.
#
# What can overlap is decided by **data flow**, not by the order of your lines: a
# product and a send, neither of which needs the other's result. On TPUs and GPUs a send
# is asynchronous. The compiled program has a `collective-permute-start` and a `-done`,
# and XLA's latency-hiding scheduler puts products between the two. (Simulated devices
# share your laptop's cores: they show the structure, not the time.)

# %% [markdown]
# ### Exercise 4.10: overlapped_matmul
#
# This is one of the tricks behind the utilization that large TPU and GPU runs report;
# it was [published in 2023](https://dl.acm.org/doi/10.1145/3567955.3567959), XLA
# applies it in some cases by itself, and PyTorch calls it *asynchronous tensor
# parallelism*. Where the compiler does not find it, you write the ring by hand.
#
# A matrix `W` is sharded by rows: device `d` holds piece `d`, which is `w: (K, N)`. It
# also holds its own rows of `X`, `x: (M, D * K)`, with all their columns. Write
# `overlapped_matmul(x, w, axis_name)`, which runs on each device, under `pmap` or
# `shard_map`, and returns that device's rows of `X @ W`. Multiply the piece that is
# here while the next one travels.
#
# ```python
# # 8 devices, on each: x: f32[2, 24], w: f32[3, 5]; W is f32[24, 5]
# jax.pmap(lambda x, w: overlapped_matmul(x, w, "i"), "i")(xs, ws)   # f32[8, 2, 5]
# ```
#
# - [same product] Each device returns its rows of `X @ W`, for any number of devices
#   and any `axis_name`.
# - [no full copy of W] With three or more devices, no intermediate array may be as
#   large as `W` (`x` and the result may). With eight, none may hold more than two of
#   its pieces.
# - [sends wait for no product] No send depends on `x` or on a product, and the product
#   of a device's own piece waits for no send, so they can overlap. In a loop, a round
#   multiplies what an earlier one has sent: it begins only when that one has ended.
# - [number of sends] Each device sends `D - 1` pieces with `jax.lax.ppermute`, and
#   nothing else.
# - [no extra arithmetic] The products take as many multiplications as `x @ W`, up to 10
#   percent.


# %% exercise="overlapped_matmul" minutes=25 difficulty=3
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
#   start. Send the piece on in each round but the last.

# %% check="overlapped_matmul"

# %% [markdown] built="overlapped_matmul"
# Use it for FSDP's gather and the weights of a layer arrive while they are being
# multiplied. The same ring with the roles exchanged, where a partial *result* travels
# and collects a term at each stop, overlaps the reduce-scatter of exercise 4.9. And if
# the travelling pieces are keys and values instead of weights, you have [ring
# attention](https://arxiv.org/abs/2310.01889), the bonus of lesson 2. JAX's [shard_map
# notebook](https://docs.jax.dev/en/latest/201/shard-map.html) goes on from here,
# with pieces that travel in both directions.

# %% [markdown]
# ## 12. What a step is bound by
#
# When is all this worth the trouble? A step needs three things of a chip: arithmetic,
# memory traffic, and the link to other chips. If all three overlap, the slowest
# decides, and speeding up the others gains nothing.
#
# A **roofline** shows how fast a single device can compute. On the slope, memory
# decides; on the flat part, arithmetic. What stays *under* the roof waits for the link.
#
# **Predict, then run.** The layers of section 11 again (`W = H = 4096`, bfloat16, eight
# H100s). Forward and backward, a layer is six products, each of which touches a weight
# and two activations. How many rows (tokens) per device does it take until each of
# eight devices is as fast as one alone, in data parallel and in FSDP?

# %%
per_device = 4.0 ** np.arange(2, 7)  # rows
intensity = per_device * width / (width + 2 * per_device)  # FLOPs per byte of memory
roof = np.minimum(h100["compute"], h100["memory"] * intensity)
reached = {"one device": roof}
for name, passes in {"data parallel": 2, "FSDP": 3}.items():  # over the weights
    per_sent_byte = 12 * per_device / (passes * 7 / 8 * 4)  # FLOPs; W * H cancels
    reached[name] = np.minimum(roof, h100["communication"] * per_sent_byte)
    shares = reached[name] / roof
    each = zip(per_device, shares, strict=True)
    print(f"{name:<14}", ", ".join(f"{n:.0f} rows: {s:.0%}" for n, s in each))
title = "One layer on an H100, W = H = 4096, by rows per device"
draw_roofline(h100, intensity, reached, [f"{n:.0f}" for n in per_device], title)

# %% [markdown]
# In data parallel a device keeps up from 1,283 rows on, in FSDP from 1,924. What is
# sent does not grow with the rows, while the arithmetic does: with enough rows, it
# takes longer than the sending. Where arithmetic decides, that number of rows does not
# depend on the size of the model. Replace NVLink by a network card of 50 GB/s and FSDP
# needs 17,308 rows per device. That is the arithmetic behind "FSDP inside, data
# parallel between".

# %% [markdown]
# ### Exercise 4.11: step_bound
#
# Before people rent a cluster they do this calculation, on an envelope; [How to Scale
# Your Model](https://jax-ml.github.io/scaling-book/) is a book of such envelopes. A
# [TPU v5p](https://cloud.google.com/tpu/docs/v5p) computes 459 TFLOP/s in bfloat16,
# reads 2,765 GB/s from its memory and sends 4,800 Gbit/s, which is 600 GB/s, over all
# its links together. That is less arithmetic per byte sent than on an H100, so fewer
# tokens hide what FSDP sends.
#
# Write two functions. `step_bound(flops, memory_bytes, sent_bytes, chip)` returns
# `(seconds, bound)`: what each part takes on its own, and which part takes longest.
# `rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip)` returns the fewest
# rows per device for which computing takes at least as long as sending. `num_bytes` is
# the size of all parameters, as they are sent; `flops_per_row` is a row's arithmetic,
# forward and backward.
#
# ```python
# step_bound(989e12, 6.7e12, 45e9, h100)
# # ({"compute": 1.0, "memory": 2.0, "communication": 0.1}, "memory")
# rows_to_hide(16e9, 48e9, 8, "FSDP", h100)      # 1924: 8 billion parameters
# ```
#
# - [time of each part] `seconds` is a dict with the keys of `chip`.
# - [the bottleneck] `bound` is the key of the longest.
# - [fewest rows] `rows_to_hide` returns a whole number of rows, at least 1. A device
#   sends what lesson 2's rings send: `"data parallel"` all-reduces the gradients once;
#   `"FSDP"` gathers the weights twice and reduce-scatters the gradients once. A single
#   device sends nothing.


# %% exercise="step_bound" minutes=15 difficulty=2
def step_bound(flops, memory_bytes, sent_bytes, chip):
    """Predicts what a step spends its time on, if all parts overlap.

    Args:
        flops: FLOPs of a device.
        memory_bytes: bytes that it reads or writes.
        sent_bytes: bytes that it sends.
        chip: what it does per second, {"compute": ..., "memory": ...,
            "communication": ...}.

    Returns:
        (seconds, bound): a dict of numbers with chip's keys, and one of these keys.
    """
    ### BEGIN SOLUTION
    # The longest, not the sum: we suppose that all parts overlap. Real steps come less
    # close: Llama 3 was trained at 38 to 43 percent of its chips' arithmetic.
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
# - Seconds are an amount divided by a speed. `max(seconds, key=seconds.get)` returns
#   the key of the longest.
# - On each device, a ring's all-gather and its reduce-scatter send `(D - 1) / D` of the
#   whole array; an all-reduce is both, one after the other.
# - `rows * flops_per_row / chip["compute"]` must reach the seconds of sending:
#   `math.ceil`, and at least 1.

# %% check="step_bound"

# %% [markdown] built="step_bound"
# A token costs about 6 FLOPs per parameter and a parameter travels as 2 bytes, so the
# size of the model cancels: with eight H100s and FSDP it is 1,924 tokens per device for
# 8 billion parameters and for 70. What remains is a ratio of the chip, its FLOPs per
# byte sent, and the tokens on each device. [Llama 3's largest
# model](https://arxiv.org/abs/2407.21783) was trained on 16,384 H100s with batches of
# 16 million tokens, about 1,000 on each: too few. That is when tensor and pipeline
# parallelism come in on top, as they did there.

# %% [markdown]
# ## 13. The model from the beginning
#
# Here is the whole lesson once more, running: one state, one `train_step`, three
# layouts. The cell shards the state as `layouts` in section 8 says, trains 40 steps,
# and prints how much of it a device holds.

# %%
mesh = make_mesh((2, 4), ("data", "model"))
rows_in = np.float32(np.random.default_rng(0).normal(size=(64, 64)))
curves = {}
for name in ("one device", "FSDP", "both"):
    state, batch = make_state(jax.random.key(0), 4, 64), rows_in
    if name in layouts:
        split, *specs = layouts[name]
        state = jax.device_put(state, state_shardings(mesh, state, *specs))
        batch = jax.device_put(batch, NamedSharding(mesh, P(split)))
    where = jax.tree.map(lambda leaf: leaf.sharding, state)
    run = jax.jit(train_step, out_shardings=(where, None), donate_argnums=0)
    curves[name] = []
    for _ in range(40):
        state, loss = run(state, batch)
        curves[name].append(float(loss))
    kib, ends = 1024 * mib_on(jax.devices()[0], state), curves[name][:: 40 - 1]
    print(f"{name:<11}holds {kib:3.0f} KiB, loss {ends[0]:.2f} to {ends[1]:.2f}")
draw_losses(curves, title="One train_step, three layouts")

# %% [markdown]
# Three curves, one line. And for the 7 billion parameters of the beginning, these are
# the lesson's numbers:
#
# | | data parallel | FSDP on 8 H100s |
# |---|---|---|
# | weights, gradients, Adam on a GPU | 112 GB: does not fit | 14 GB |
# | sent per step and GPU, in float32 | 49 GB | 73.5 GB |
# | tokens per GPU that hide it, in bfloat16 | 1,283 | 1,924 |
#
# When you are unsure what your own program does, ask it. `draw_array` or `jax.typeof`
# show how an array is sharded; `jax.jit(f).lower(...).compile().as_text()` names the
# collectives; `memory_analysis()` and `cost_analysis()` of the compiled program say
# what a device holds and computes.

# %% [markdown]
# **Your score.** The scorecard shows what the checks above said last. Save the
# notebook, then run `make grade` in a terminal, in the course's folder: it grades the
# saved file as a class's work is graded, and shows the same cards.

# %% scorecard=true
