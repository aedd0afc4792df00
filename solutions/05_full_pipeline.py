# %% [markdown]
# # Lesson 5. The full pipeline
#
# COLAB_BADGE
#
# A run reads every row, takes hours, is killed, and goes on as if nothing had happened.
# You write such a program.
#
# **After this lesson you can**
#
# - feed devices with fresh data, and continue the stream at any step;
# - write a compiled step that accumulates, synchronises once and reuses memory;
# - compute in bfloat16 where accuracy allows it;
# - save, kill, resume: bit for bit on the same devices, up to rounding on fewer;
# - run the same script as several processes.
#
# **You need** lessons 1 to 4. **Time**: about 225 minutes in three sittings of 75, for six
# exercises; pause before sections 3 and 6.

# %% setup=true

# %% [markdown]
# ## 1. Data
#
# A small pipeline: 4,096 rows of 32 features, a linear model, batches of 256 split
# over eight devices, 500 steps of SGD.
#
# **Common mistake: one batch for ever.** Many examples cut 256 rows once, before
# the loop. The loss falls nicely.
#
# **Predict, then run.** The true weights are known. How far from them does each run end?

# %%
import itertools
import os
from importlib.metadata import distribution
from pathlib import Path
from unittest import mock

import optax
from coursekit.compiled_program import CompiledProgram
from coursekit.processes import run_script
from coursekit.script import write_script
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def make_mesh(num_devices):  # the first devices, in a row
    if num_devices > jax.device_count():
        raise ValueError(f"a mesh of {num_devices} on {jax.device_count()} devices")
    devices, types = jax.devices()[:num_devices], (AxisType.Auto,)
    return jax.make_mesh((num_devices,), ("data",), axis_types=types, devices=devices)


def place(array, sharding):  # a part for each device; do not write to array afterwards
    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])


def epoch_order(seed, epoch, num_rows):  # the order of an epoch's rows
    return np.random.default_rng((seed, epoch)).permutation(num_rows)


# %%
def regression_data(num_rows=4096, num_features=32, noise=0.1):
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=num_features), rng.normal(size=(num_rows, num_features))
    y = x @ w + noise * rng.normal(size=num_rows)
    return np.float32(x), np.float32(y), np.float32(w)


@jax.jit
def sgd(w, x, y):
    loss, grad = jax.value_and_grad(lambda w: ((x @ w - y) ** 2).mean())(w)
    return w - 0.01 * grad, loss


data_x, data_y, true_w = regression_data()
by_rows, errors = NamedSharding(make_mesh(8), P("data")), {}
for name, stride in (("the same 256 rows", 0), ("fresh rows", 256)):
    w, errors[name] = np.zeros(32, np.float32), []
    for step in range(500):
        rows = (stride * step + np.arange(256)) % 4096
        w, loss = sgd(w, place(data_x[rows], by_rows), place(data_y[rows], by_rows))
        errors[name].append(np.abs(w - true_w).max())
    print(f"{name:<18} loss {loss:.2f}, largest error {errors[name][-1]:.3f}")
draw_losses(errors, "largest error of a weight", "Two runs with the same loss")

# %% [markdown]
# The printed losses do not tell the runs apart, the weights do: 3,840 rows were never
# seen. And after a kill the stream must go on *where it was*.
#
# So we make the stream a **function of the step**. `epoch_order(seed, epoch, num_rows)`
# gives the order of an epoch's rows; epoch after epoch they make one endless line.
# Batch k is the k-th piece of it: of 10 rows in batches of 4, batch 2 takes the last
# two rows of epoch 0 and the first two of epoch 1.


# %% [markdown]
# In all exercises of this lesson:
#
# - [arguments stay] Do not change, delete or donate arguments (but for 5.2's state).
# - [nothing is remembered] Keep nothing from one call to the next.
#
# A check of what devices compute or send reads the program that JAX traces: leave
# `float()` and NumPy out of it.

# %% [markdown]
# ### Exercise 5.1: batches
#
# [batch after batch] `batches(data, batch_size, sharding, seed, start_step)` is a
# generator of batches for ever, from number `start_step` on. `data` is a tuple of one
# or more arrays of N rows; a batch is a tuple of `jax.Array`s: `batch_size` rows of
# each, in its dtype.
#
# - [rows in order] Rows come in the order above; a batch may be longer than an epoch.
# - [laid out by sharding] Arrays lie as `sharding` says, on any mesh.
# - [one batch ahead] **The next batch is on its way**: when one is handed out, the next
#   has been placed, and none after.
# - [rows must divide] If `sharding` cannot split `batch_size` evenly: a `ValueError`
#   with both numbers, rows and parts, at the first `next` or before. (JAX's own will
#   do.)
#
# Use `place`.


# %% exercise="batches" minutes=20 difficulty=2
def batches(data, batch_size, sharding, seed, start_step):
    """Yields batches for ever, the next one already on its way.

    Args:
        data: a tuple of host arrays (N, ...), of numbers of 32 bits or fewer.
        batch_size: rows in a batch, over all devices.
        sharding: how a batch's rows lie.
        seed: of the epochs' orders.
        start_step: number of the first batch, from 0 on. The endless line is read up to
            row 2**31 - 1 at most: int32 can number its rows.

    Yields:
        A tuple of `jax.Array`s (batch_size, ...).

    Raises:
        ValueError: the rows do not divide (names both numbers).
    """

    ### BEGIN SOLUTION
    def ready(step):
        places = step * batch_size + np.arange(batch_size)
        epochs, inside = np.divmod(places, len(data[0]))
        orders = {e: epoch_order(seed, e, len(data[0])) for e in np.unique(epochs)}
        rows = np.array([orders[e][i] for e, i in zip(epochs, inside, strict=True)])
        return tuple(place(array[rows], sharding) for array in data)

    ahead = ready(start_step)
    for step in itertools.count(start_step + 1):
        now, ahead = ahead, ready(step)
        yield now
    ### END SOLUTION


# %% [markdown] hints="batches"
# - Batch k holds `batch_size` places of the endless line, from `k * batch_size` on;
#   `np.divmod(places, N)` gives each place's epoch and its index there.
# - Write a function `ready(step)` that makes one batch. The generator keeps one made
#   ahead.
# - `now, ahead = ahead, ready(step)`, then `yield now`.

# %% check="batches"

# %% [markdown]
# ## 2. The step
#
# A batch that is too large for memory goes in **microbatches**: their gradients are added
# up, then the optimizer steps once. One sync is enough, *after* the loop.
#
# **Predict, then run.** Below, a loop over four microbatches is only jitted, without
# `shard_map`. How much does a device send, against one sync?


# %%
def init_params(key, hidden=32):  # of a classifier of 8 x 8 images
    one, two = jax.random.split(key)
    w1 = jax.random.normal(one, (64, hidden)) / 8
    w2 = jax.random.normal(two, (hidden, 10)) / hidden**0.5
    return {"w1": w1, "b1": jnp.zeros(hidden), "w2": w2, "b2": jnp.zeros(10)}


def digits_loss(params, x, y):  # mean cross-entropy; x: f32[B, 64], y: i32[B]
    h = jnp.tanh(x @ params["w1"] + params["b1"])
    logits = h @ params["w2"] + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def microbatches_of(batch, count):  # (B, ...) -> (count, B / count, ...)
    return jax.tree.map(lambda a: a.reshape(count, -1, *a.shape[1:]), batch)


def updated(optimizer, state, grads):  # an optimizer's step, as in lesson 3
    updates, opt_state = optimizer.update(grads, state["opt_state"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "opt_state": opt_state}


def make_sgd():
    return optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))


# %%
@jax.jit
def accumulated(params, x, y):  # x: f32[4, 64, 64], y: i32[4, 64]
    def add(total, piece):
        return jax.tree.map(jnp.add, total, jax.grad(digits_loss)(params, *piece)), None

    return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), (x, y))[0]


mesh = make_mesh(8)
whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P(None, "data"))
params = jax.device_put(init_params(jax.random.key(0)), whole)
x = place(np.ones((4, 64, 64), np.float32), split)
y = place(np.ones((4, 64), np.int32), split)
program = CompiledProgram(accumulated.lower(params, x, y).compile())
sent = sum(one.bytes_moved for one in program.collectives)
# A ring's all-reduce (lesson 2):
once = 2 * 7 / 8 * sum(leaf.nbytes for leaf in jax.tree.leaves(params))
print(f"a device sends {sent / once:.1f} times the gradient's all-reduce")

# %% [markdown]
# Under `jit` each microbatch's gradient is whole, so here each gets its all-reduce. Under
# `shard_map` you say what *one device* does, and the sync is yours to place. (With
# `check_vma=False`, and `pmean` of the gradients: lesson 3.)
#
# And memory: a step that **donates** its state writes the new one where the old one was.
# The old arrays are gone after the call.

# %% [markdown]
# ### Exercise 5.2: make_train_step
#
# [steps of the whole batch] `make_train_step(loss_fn, optimizer, mesh, num_microbatches)`
# returns a jitted function `(state, batch) -> (state, metrics)`. `state` is `{"params",
# "opt_state"}`; `batch` is a tuple of arrays split by rows over `"data"`.
# `loss_fn(params, *batch)` is a mean over rows.
#
# - [state is whole] The new state, like the old, lies whole on every device.
# - [microbatches] A device takes its rows in `num_microbatches` equal pieces, one by one.
# - [loss and grad_norm] `metrics` is `{"loss", "grad_norm"}`, of the whole batch: the
#   norm of its gradient as one vector (`optax.tree.norm`), before the optimizer clips
#   it.
# - [one sync] Devices send only after the loop, at most one all-reduce of gradients and
#   loss (split as you like).
# - [state is donated] The old state is donated.
# - [compiled once] Steps of the same shapes compile once.


# %% exercise="make_train_step" minutes=26 difficulty=3
def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    """Makes the compiled training step.

    Args:
        loss_fn: (params, *batch) -> f32 (), a mean over rows.
        optimizer: of Optax.
        mesh: of one axis, "data".
        num_microbatches: pieces that a device takes one after the other.

    Returns:
        (state, batch) -> (state, {"loss": f32 (), "grad_norm": f32 ()}). A batch's rows
        divide by devices and pieces.
    """

    ### BEGIN SOLUTION
    def mean_grads(params, batch):  # one device's rows
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)
    ### END SOLUTION


# %% [markdown] hints="make_train_step"
# - Inside of `shard_map` a device sees its own rows: `scan` over `microbatches_of` them,
#   adding up `jax.value_and_grad(loss_fn)`.
# - Divide the sums by `num_microbatches`, then `jax.lax.pmean(..., "data")`, after the
#   scan.
# - `jax.jit(step, donate_argnums=0)`, made once, and returned.

# %% check="make_train_step"

# %% [markdown]
# ## 3. bfloat16 where it is safe
#
# (Good for a pause; afterwards run all cells above again.)
#
# GPUs and TPUs multiply bfloat16 matrices several times as fast as float32. bfloat16
# keeps float32's range, with 8 bits of precision instead of 24.
#
# **Predict, then run.** Add a thousand ones, one after the other, in bfloat16.

# %%
total = jax.lax.fori_loop(0, 1000, lambda _, t: t + jnp.bfloat16(1), jnp.bfloat16(0))
print(f"a thousand ones make {float(total):.0f}")
for dtype in (jnp.float32, jnp.bfloat16, jnp.float16):
    facts = jnp.finfo(dtype)
    print(
        f"{facts.dtype!s:<9} next above 1: 1 + {float(facts.eps):.0e}, largest {float(facts.max):.0e}"
    )

# %% [markdown]
# 256 + 1 is 256: a small step onto a large number is lost, and an update is just that. So
# **parameters, optimizer state and losses stay float32**; matrix products read bfloat16
# copies made inside the loss, and gradients come back as float32.

# %% [markdown]
# ### Exercise 5.3: mixed_precision_loss
#
# [digits_loss] `mixed_precision_loss(params, x, y)` is `digits_loss` (section 2) in mixed
# precision. `y` holds whole numbers; all other inputs are float32.
#
# - [bfloat16 products] The only matrix products are those with `w1` and `w2`, and those
#   of their gradients. All multiply bfloat16 by bfloat16.
# - [float32 from the logits on] Logits are cast to float32, and all after them is
#   float32: softmax, the mean, the result. Biases and tanh may be in either.
# - [float32 gradients] Gradients with respect to `params` come out as float32.


# %% exercise="mixed_precision_loss" minutes=9 difficulty=1
def mixed_precision_loss(params, x, y):
    """Computes the mean cross-entropy, its matrix products in bfloat16.

    Args:
        params: w1 f32 (64, H), b1 f32 (H,), w2 f32 (H, 10), b2 f32 (10,).
        x: f32 (B, 64).
        y: i32 (B,).

    Returns:
        f32 ().
    """
    ### BEGIN SOLUTION

    def product(a, b):
        return (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    logits = product(h, params["w2"]) + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
    ### END SOLUTION


# %% [markdown] hints="mixed_precision_loss"
# - `a.astype(jnp.bfloat16)` copies; the gradient of a cast is a cast back.
# - A product of bfloat16 and float32 is computed in float32: cast both.
# - Cast a product's result to float32 then. (`preferred_element_type=jnp.float32` in its
#   place gives the gradient's products a float32 factor.)

# %% check="mixed_precision_loss"

# %% [markdown]
# ## 4. Checkpoints
#
# So that a resumed run ends with the *same bits*, a checkpoint holds all that the next
# step reads: parameters, optimizer state, the position in the data, random keys.
#
# **Orbax** writes it, each process what its devices hold. `save` copies the state and
# returns; writing goes on while you train, and donating the state right after is safe. A
# checkpoint counts once it is complete.
#
# **Common mistake: restoring without a target.** What becomes of the tuple in the
# optimizer's state?


# %%
import orbax.checkpoint as ocp
from orbax.checkpoint.args import Composite, JsonRestore, JsonSave
from orbax.checkpoint.args import StandardRestore, StandardSave


def open_manager(directory, keep=2):  # of a folder of checkpoints; the last few stay
    state, facts = ocp.StandardCheckpointHandler(), ocp.JsonCheckpointHandler()
    handlers, folder = {"state": state, "facts": facts}, Path(directory).absolute()
    options = ocp.CheckpointManagerOptions(max_to_keep=keep)
    return ocp.CheckpointManager(folder, options=options, item_handlers=handlers)


def set_aside(manager, step):  # into the folder "damaged"; its step is free again
    if len(manager.all_steps()) < 2:  # to start anew would lose the run
        raise RuntimeError(f"{manager.directory.name}/{step}, the last, cannot be read")
    aside, everyone = Path(manager.directory, "damaged"), {*range(jax.process_count())}
    target = aside / f"{step}.{len([*aside.glob(f'{step}.*')])}"
    # All processes come here within a minute: else nothing moves, and this raises.
    ocp.multihost.sync_global_processes(f"{target}", timeout=60, processes=everyone)
    if jax.process_index() == 0:
        aside.mkdir(exist_ok=True)
        Path(manager.directory, f"{step}").rename(target)
    ocp.multihost.sync_global_processes("moved")  # processes go on once it is done
    manager.reload()


# %%
import logging
import tempfile


def abstract(tree):  # shapes, dtypes and shardings of a tree of arrays
    return jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), tree
    )


def saved_shapes(manager, step):  # the saved tree: shapes and dtypes, no layout
    tree = manager.item_metadata(step).state.tree
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


logging.getLogger("absl").setLevel(logging.ERROR)  # Orbax's remarks as it tidies up
params = jax.device_put(init_params(jax.random.key(0)), whole)
state = {"params": params, "opt_state": make_sgd().init(params)}
folder = tempfile.mkdtemp()
with open_manager(folder) as manager:
    manager.save(10, args=Composite(state=StandardSave(state)))
    manager.wait_until_finished()
    for name, target in (("no target", None), ("a target", abstract(state))):
        wanted = Composite(state=StandardRestore(target))
        kind = type(manager.restore(10, args=wanted).state["opt_state"]).__name__
        print(f"{name}: the optimizer's state comes back as a {kind}")

# %% [markdown]
# A target of abstract arrays gives back structure, dtypes *and layout*. Without one Orbax
# also wants the same devices again.

# %% [markdown]
# ### Exercise 5.4: restore_state, and save_state
#
# [state and facts are saved] `save_state(manager, step, state, facts)` starts saving two
# items, `state` (`StandardSave`) and `facts` (`JsonSave`).
#
# [the newest checkpoint] `restore_state(manager, fresh, settings)` returns `(step, state,
# facts)` of the newest checkpoint.
#
# - [laid out as fresh] Wherever it was saved, the state has the structure, dtypes and
#   layout of `fresh`.
# - [fresh without checkpoint] Without a checkpoint: `(0, fresh, {})`.
# - [another run] Before the state is read: if `facts` lacks a name of `settings` (even
#   one whose value is `None`) or has another value there: a `ValueError` with the name.
#   This checkpoint stays.
# - [damaged ones are set aside] If reading facts or state raises: print the step, call
#   `set_aside(manager, step)`, take the checkpoint before. **Delete nothing**: full
#   memory or a model of other shapes raises, too. The only one left stays: `set_aside`
#   raises.


# %% exercise="restore_state" minutes=28 difficulty=2
def save_state(manager, step, state, facts):
    """Starts to save a state and the facts that belong to it.

    Args:
        manager: an Orbax `CheckpointManager`.
        step: number of steps done, at least 1. (Orbax skips one that is not newer than
            its last.)
        state: a tree of arrays.
        facts: plain data by name.
    """
    ### BEGIN SOLUTION
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))
    ### END SOLUTION


def restore_state(manager, fresh, settings):
    """Restores the newest checkpoint that can be read.

    Args:
        manager: an Orbax `CheckpointManager`.
        fresh: a state to start with: a tree of arrays in their layout.
        settings: plain data that the facts must have, by name. (As in JSON: no tuples.)

    Returns:
        (step, state, facts); (0, fresh, {}) where there is no checkpoint.

    Raises:
        ValueError: a checkpoint of another run (names the entry).
        RuntimeError: there are some, and none can be read (by `set_aside`).
    """
    ### BEGIN SOLUTION

    def read(step, **items):
        try:
            return manager.restore(step, args=Composite(**items))
        except Exception as error:
            print(f"Checkpoint {step} is set aside: {type(error).__name__}.")
            set_aside(manager, step)

    for step in sorted(manager.all_steps(), reverse=True):
        if found := read(step, facts=JsonRestore()):
            for name, value in settings.items():
                if found.facts.get(name, ...) != value:  # ...: never in JSON
                    raise ValueError(f"{name} is {value}, but was not")
            if restored := read(step, state=StandardRestore(abstract(fresh))):
                return step, restored.state, found.facts
    return 0, fresh, {}
    ### END SOLUTION


# %% [markdown] hints="restore_state"
# - `manager.all_steps()` lists the steps; go through them from the newest.
# - Restore the facts alone, and compare. Only where they agree restore the state, by
#   `StandardRestore(abstract(fresh))`. `facts.get(name, ...)` tells a missing entry from
#   `None`.
# - `try` covers the reading alone: its `except` would take your own `ValueError` for
#   damage.
#
#   ```python
#   for step in sorted(manager.all_steps(), reverse=True):
#       try:
#           found = manager.restore(step, args=Composite(facts=JsonRestore()))
#       except Exception:
#           print(f"Checkpoint {step} cannot be read.")
#           set_aside(manager, step)
#           continue
#       ...  # compare found.facts; read the state likewise
#   ```

# %% check="restore_state"

# %% [markdown]
# ## 5. Another machine
#
# Tomorrow's machine has four devices, or another layout is faster. A checkpoint holds
# each array in pieces; a process reads those that its devices need.
# `saved_shapes(manager, step)` lists what is in it.

# %% [markdown]
# ### Exercise 5.5: restore_elsewhere
#
# [the newest values] `restore_elsewhere(directory, mesh, specs)` returns the state of
# the newest complete checkpoint in `directory`: the saved arrays, in the dicts and lists
# that `saved_shapes` shows. `specs` is a tree like it, with a `PartitionSpec` for each.
#
# - [laid out by specs] Arrays lie on `mesh`, on its devices and over its axes, as
#   `specs` say.
# - [no whole copy] **No whole copy** of a split array, neither on a device nor on the
#   host: give Orbax the layout.
# - [nothing there] No checkpoint there: `FileNotFoundError` naming the directory.
# - [unknown axis] A spec with an axis that the mesh lacks: `ValueError` naming it.


# %% exercise="restore_elsewhere" minutes=12 difficulty=2
def restore_elsewhere(directory, mesh, specs):
    """Restores the newest checkpoint on a mesh of its own.

    Args:
        directory: of an Orbax `CheckpointManager`, with an item "state".
        mesh: any mesh.
        specs: a `PartitionSpec` for each array of the state.

    Returns:
        The state: `jax.Array`s on `mesh`.

    Raises:
        FileNotFoundError: no checkpoint (names the directory, which may be made).
        ValueError: an axis that the mesh lacks (names it).
    """

    ### BEGIN SOLUTION
    def target(leaf, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    with open_manager(directory) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {directory}")
        like = jax.tree.map(target, saved_shapes(manager, step), specs)
        wanted = Composite(state=StandardRestore(like))
        return manager.restore(step, args=wanted).state
    ### END SOLUTION


# %% [markdown] hints="restore_elsewhere"
# - `with open_manager(directory) as manager:` closes it again; `manager.latest_step()` is
#   `None` where there is no checkpoint.
# - The target is `saved_shapes` with `sharding=NamedSharding(mesh, spec)` for each leaf:
#   `jax.tree.map` over both trees.
# - Then restore as in 5.4: `Composite(state=StandardRestore(like))`.

# %% check="restore_elsewhere"

# %%
w = place(np.arange(64, dtype=np.float32).reshape(16, 4), by_rows)
with open_manager(folder := tempfile.mkdtemp()) as manager:
    manager.save(10, args=Composite(state=StandardSave({"w": w})))
types, four = (AxisType.Auto,) * 2, jax.devices()[:4]
two_by_two = jax.make_mesh((2, 2), ("data", "model"), axis_types=types, devices=four)
try:
    restored = restore_elsewhere(folder, two_by_two, {"w": P("model", "data")})["w"]
    draw_array(w, 'saved, 8 devices, P("data"):')
    draw_array(restored, 'restored, 2 x 2, P("model", "data"):')
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    print("Solve exercise 5.5, then run this again.")

# %% [markdown]
# ## 6. Several processes
#
# (Good for a pause; afterwards run all cells above again.)
#
# A cluster runs *your script once per machine*, or per GPU. `jax.distributed.initialize`,
# called first, joins them: `jax.devices()` lists the devices of all, a mesh spans them.
# Three rules:
#
# - every process makes the same calls in the same order (Orbax's `save`, too): a
#   collective that one skips makes the others wait for ever. If one alone cannot read a
#   checkpoint, `set_aside` moves nothing and raises after a minute;
# - each serves its own devices (`place`);
# - your own files are written by process 0, into a folder that all see.

# %% [markdown]
# Below is section 1's pipeline as one function, with a copy of the weights every 20
# steps. `write_script` puts it into a file, with all that it uses.


# %%
def train_regression(directory, num_steps, cut_at=None):
    """Fits a linear model, from the last copy of its weights if there is one."""
    x, y, _ = regression_data()
    by_rows, whole = (NamedSharding(make_mesh(8), spec) for spec in (P("data"), P()))
    log, copy = Path(directory, "losses.txt"), Path(directory, "copy.npz")
    found = np.load(copy) if copy.exists() else {"step": 0, "w": np.zeros_like(x[0])}
    start, w = int(found["step"]), place(found["w"], whole)
    lines = log.read_text().splitlines()[:start] if start else []
    for step in range(start, num_steps):
        rows = (256 * step + np.arange(256)) % 4096
        w, loss = sgd(w, place(x[rows], by_rows), place(y[rows], by_rows))
        lines.append(f"{loss:.6f}")
        if jax.process_index() == 0:
            log.write_text("\n".join(lines))
            if step % 20 == 19:
                np.savez(part := copy.with_suffix(".part.npz"), step=step + 1, w=w)
                part.replace(copy)
        elif step == cut_at:
            os.kill(os.getpid(), 9)  # SIGKILL, as by a power cut


# %% [markdown]
# **Predict, then run.** One process with eight devices; two with four each; two again,
# and at step 50 one is killed. What does the other do? And the same script once more?

# %%
names = ("one process", "two", "two, one killed at 50")
one, two, killed = folders = [tempfile.mkdtemp() for _ in names]
train_regression(one, 120)
script = Path(two, "train.py")
write_script(script, train_regression)
again = {"directory": killed, "num_steps": 120}
print("two processes:", run_script(script, {"directory": two, "num_steps": 120}, 2))
print("one is killed:", run_script(script, again | {"cut_at": 50}, 2))
print("once more:", run_script(script, again, 2))

curves = {
    name: np.loadtxt(Path(folder, "losses.txt"))
    for name, folder in zip(names, folders, strict=True)
}
largest = max(np.abs(curve - curves["one process"]).max() for curve in curves.values())
print(f"largest difference of 120 losses is below 1e-4: {largest < 1e-4}")
draw_losses(curves, "loss", "One script, three ways to run it")

# %% [markdown]
# The survivor cannot go on: it waits or is aborted. Both start again from the last copy.
# A cluster's launcher ends the others, if told to, and can start all again.
#
# The losses agree but for rounding: two processes add up in another order. *Bit for
# bit* holds for the same processes and devices; on GPUs add `XLA_FLAGS`'
# `--xla_gpu_deterministic_ops=true`.

# %% [markdown]
# ## 7. The whole
#
# These are given:
#
# | function | makes |
# |---|---|
# | `make_task(config)` | `(data, loss_fn, init)`; checks the settings first |
# | `make_optimizer(config)` | AdamW, with a schedule |
# | `first_state(init, optimizer, mesh)` | a state, whole on every device |
# | `settings_of(config)` | what a resumed run must share |
# | `open_log(config, step)` | `write(step, metrics)`, `flush()`; keeps `step` lines |
#
# To read a loss is to wait for its step. So `write` keeps a step's metrics until the next
# ones come, **one step late**: `next(stream)` prepares a batch while step k runs.
# `flush` writes what is kept.


# %%
import json


def config_of(directory, /, **changes):  # the settings of a run
    config = {"directory": str(directory), "task": "digits", "num_devices": 8}
    config |= {"num_steps": 200, "batch_size": 64, "num_microbatches": 2, "hidden": 32}
    config |= {"save_every": 50, "keep": 2, "seed": 0, "peak_lr": 0.01, "cut_at": None}
    return config | changes


def run_fit(directory, **changes):
    """Trains by `fit`; settings as `config_of` has them."""
    fit(config_of(directory, **changes))


def settings_of(config):  # what a resumed run must share with the one before
    free = ("directory", "num_devices", "num_steps", "save_every", "keep", "cut_at")
    return {name: value for name, value in config.items() if name not in free}


# %%
def square_loss(w, x, y):
    return ((x @ w - y) ** 2).mean()


def check_config(config):
    unknown = [*config.keys() - config_of("").keys()] or config["task"]
    if unknown not in ("digits", "regression"):
        raise ValueError(f"unknown: {unknown}")
    pieces = config["num_devices"] * config["num_microbatches"]
    if config["batch_size"] % pieces:
        raise ValueError(f"a batch of {config['batch_size']} rows in {pieces} pieces")
    if os.path.exists(folder := config["directory"]) and not os.path.isdir(folder):
        raise NotADirectoryError(f"{folder} is no directory")


# %%
def make_task(config):  # (data, loss function, function that makes the parameters)
    check_config(config)
    if config["task"] == "regression":
        x, y, w = regression_data()
        return (x, y), square_loss, lambda: jnp.zeros(w.shape)
    digits = "sklearn/datasets/data/digits.csv.gz"  # its import would take a second
    rows = np.loadtxt(distribution("scikit-learn").locate_file(digits), delimiter=",")
    images, labels = np.float32(rows[:, :-1] / 16), np.int32(rows[:, -1])
    key, hidden = jax.random.key(config["seed"]), config["hidden"]
    return (images, labels), digits_loss, lambda: init_params(key, hidden)


def make_optimizer(config):  # AdamW behind clipping, on a warm-up cosine schedule
    peak = config["peak_lr"]  # from step 1000 on a tenth of it
    rate = optax.warmup_cosine_decay_schedule(0, peak, 20, 1000, peak / 10)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate))


def first_state(init, optimizer, mesh):  # made in place, whole on every device
    def make():
        params = init()
        return {"params": params, "opt_state": optimizer.init(params)}

    return jax.jit(make, out_shardings=NamedSharding(mesh, P()))()


# %%
def open_log(config, step):  # returns write(step, metrics) and flush()
    path, kept = Path(config["directory"], "metrics.jsonl"), []
    lines = path.read_text().splitlines(keepends=True)[:step] if path.exists() else []
    is_first = jax.process_index() == 0
    if is_first:
        (part := path.with_suffix(".part")).write_text("".join(lines))
        part.replace(path)

    def flush():
        for number, metrics in kept:
            line = {"step": number} | {name: float(a) for name, a in metrics.items()}
            if is_first:
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        kept.clear()

    def write(step, metrics):
        flush()
        kept.append((step, metrics))
        if step == config["cut_at"] and (not is_first or jax.process_count() == 1):
            os.kill(os.getpid(), 9)  # the power cut of the check

    return write, flush


# %% [markdown]
# ### Exercise 5.6: fit
#
# [trains to the last step] `fit(config)` trains to `config["num_steps"]` and returns
# the parameters, on the mesh. `config["seed"]` orders the data. It uses your `batches`,
# `make_train_step`, `save_state` and `restore_state`.
#
# - [checkpoints] Steps count from 1, batches from 0. Checkpoints lie in
#   `directory/checkpoints`, made if missing: at multiples of `save_every` and after the
#   last; `keep` of them stay. Their facts are `settings_of(config)`.
# - [goes on] From a checkpoint the run goes on: killed at any moment and started again
#   it ends with the same bits; `metrics.jsonl` has each step once. Before checkpoint k,
#   lines 1 to k are there: `flush()`.
# - [several processes] As several processes it trains the same model.
# - [refuses bad settings] For bad settings it raises, before it writes anything, what
#   `make_task` and `make_mesh` raise.


# %% exercise="fit" minutes=28 difficulty=3
def fit(config):
    """Trains to the last step, from the newest checkpoint if there is one.

    If the newest checkpoint is of step `num_steps` or of a later one, it only restores.

    Args:
        config: as `config_of` makes it.

    Returns:
        The parameters, whole on every device.

    Raises:
        ValueError, NotADirectoryError: before any step, for bad settings.
    """
    ### BEGIN SOLUTION
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, facts)
        (write, flush), rows = open_log(config, start), NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, facts)
    return state["params"]
    ### END SOLUTION


# %% [markdown] hints="fit"
# - Order: mesh, task, first state, manager, restore, step, stream, log, loop.
# - `restore_state` covers the first start, too: step 0 and the fresh state.
#   In the loop: step, write; where a save is due, flush, then save.
# - Leaving `with open_manager(...) as manager:` waits until the last save is complete.

# %% check="fit"

# %% [markdown]
# `write_script("pipeline.py", run_fit)` makes your own program of it (`run_fit`, defined
# beside `config_of`, calls your `fit`), for one GPU or, where `num_devices` counts those
# of all processes, for a cluster:
#
# ```
# python pipeline.py '{"directory": "/tmp/run", "num_devices": 1}'
# srun python pipeline.py '{"directory": "/shared/run", "num_devices": 8}' cluster
# ```
#
# The grown-up version is `solutions/references/full_pipeline.py`. It adds 5.3
# (`--compute-dtype`) and 5.5 (`--mesh data=4,model=2`); after SIGTERM, by which a cluster
# takes its machines back, it saves and ends.

# %% [markdown]
# ## 8. What takes the time?
#
# **Predict, then run.** Below, the host takes 20 ms for each batch. What is it worth to
# read losses one step late? (Look at `ratio`.)

# %%
import time

square = place(np.ones((512, 512), np.float32), NamedSharding(make_mesh(8), P()))
images = place(np.ones((512, 512), np.float32), by_rows)


@jax.jit
def big_step(w, x):
    loss, grad = jax.value_and_grad(lambda w: ((jnp.tanh(x @ w) @ w) ** 2).mean())(w)
    return w - 0.1 * grad, loss


def seconds(steps_late, num_steps=20):
    w, waiting, start = square, [], time.perf_counter()
    for _ in range(num_steps):
        time.sleep(0.02)  # the host makes a batch
        w, loss = big_step(w, images)
        waiting.append(loss)
        while len(waiting) > steps_late:
            float(waiting.pop(0))
    w.block_until_ready()
    return time.perf_counter() - start


# %%
jax.block_until_ready(big_step(square, images))  # compiled before anything is timed
at_once, late = (min(seconds(number) for _ in range(3)) for number in (0, 1))
ratio = late / at_once  # look at it in a cell of your own

# %% [markdown]
# `ratio` was 0.6 to 0.8 here: of the two times only the longer counts.
#
# `jax.profiler.trace(directory)` records what each device did; TensorBoard or Perfetto
# show it. Below, three steps on 512 x 512 weights.
#
# **Look for** gaps (waiting for data or Python), long collectives, and the slowest
# device.

# %%
folder = tempfile.mkdtemp()
with jax.profiler.trace(folder):
    for step in range(3):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            square, loss = jax.block_until_ready(big_step(square, images))
draw_profile(folder, "Three steps on eight devices")

# %% [markdown]
# Simulated devices share your cores, so a bar also holds time without a core. Much orange
# asks for more work per step, or fewer bytes.

# %% [markdown]
# ## 9. The production checklist
#
# The checks above tick the lines. Curves for others:
# `full_pipeline.py --log wandb` or `--log tensorboard`.

# %%
checklist(
    {
        "every row once per epoch, resumable at any step": "batches",
        "the next batch on its way while this one trains": "batches",
        "one compile, one sync per step, memory reused": "make_train_step",
        "bfloat16 products, float32 state": "mixed_precision_loss",
        "killed and resumed, bit for bit; damage survived": "restore_state",
        "another number of devices, another layout": "restore_elsewhere",
        "the whole, in one process and in two": "fit",
    }
)

# %% [markdown]
# ## Recap
#
# - Make the data stream a function of the step: then a step number resumes it.
# - Accumulate in the compiled step, synchronise once, donate.
# - A checkpoint holds all that the next step reads. Restore into a target with a layout.
# - When one of several processes dies, all end and start again.

# %% [markdown]
# ## Three questions
#
# **1. A run is resumed with parameters and step, but with a fresh optimizer state. What
# do you see?**
#
# <details><summary>An error</summary>
#
# A fresh state has the right shapes.
#
# </details> <details><summary>A loss curve with a bump or without one, and other
# parameters</summary>
#
# Right. It is another run; only a comparison of bits shows it.
#
# </details>
# <details><summary>The same run, since the parameters are the same</summary>
#
# AdamW's moments and step count decide, too.
#
# </details>

# %% [markdown]
# **2. One of sixteen processes dies. The others...**
#
# <details><summary>go on with a smaller batch</summary>
#
# The compiled program has sixteen partners; it cannot shrink.
#
# </details>
# <details><summary>cannot go on: they wait or are aborted</summary>
#
# Right. JAX's heartbeat aborts them after 100 s; a launcher can end them sooner.
#
# </details>
# <details><summary>raise an exception that you can catch</summary>
#
# Some may; the partner stays lost.
#
# </details>

# %% [markdown]
# **3. Where may bfloat16 hurt?**
#
# <details><summary>in matrix products</summary>
#
# They add up in float32 inside.
#
# </details>
# <details><summary>in parameters that get small updates</summary>
#
# Right. 256 + 1 is 256: the update is rounded away.
#
# </details>
# <details><summary>in activations that are large</summary>
#
# Its range is float32's. float16 is the one that overflows.
#
# </details>

# %% [markdown]
# ## Now in the wild
#
# - [Orbax, checkpointing](https://orbax.readthedocs.io/): the manager's other options.
# - [JAX on several processes](https://docs.jax.dev/en/latest/multi_process.html); on SLURM,
#   Kubernetes and TPU pods: `docs/clusters.md` here.
# - [MaxText](https://github.com/AI-Hypercomputer/maxtext) trains language models.
# - In `solutions/references/`: `sharded_pipeline.py`, the smallest pipeline;
#   `ensemble.py`, lesson 1's, trained; `pmap_linear_regression.py`; `keras_digits.py`.
#
# You have finished the course, with 22 of 25 points.

# %% [markdown]
# ---
#
# ## Going further
#
# What follows takes some 125 minutes, in another sitting: first run all cells above
# again. Exercise 5.7 has the other 3 points. 5.8 to 5.10 are a bonus: their points come
# on top.

# %% [markdown]
# ## 10. Then and now
#
# | then | now |
# |---|---|
# | `pjit`, `in_axis_resources` | `jax.jit`, the arguments' shardings |
# | `with mesh:` | `jax.set_mesh(mesh)` |
# | `pmap` in each process | one mesh over all processes |
# | `host_local_array_to_global_array` | `jax.make_array_from_process_local_data` |
# | `flax.training.checkpoints` | Orbax's `CheckpointManager` |
#
# On axes of type **Explicit**, where shardings are part of types, 5.2's step runs as it
# is (and compiles once more at its second step): inside `shard_map` a device has its
# own rows. Outside of `shard_map`, JAX wants to be told how microbatches lie.
#
# **Predict, then run.** Over which axis is each result split?

# %%
explicit = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
x = place(np.ones((64, 16), np.float32), NamedSharding(explicit, P("data")))
w = place(np.ones((16, 10), np.float32), NamedSharding(explicit, P()))
specs = {"in_specs": P("data"), "out_specs": P(None, "data")}
in_map = jax.shard_map(lambda x: microbatches_of(x, 4), mesh=explicit, **specs)
for name, make in (
    ("product", lambda: x @ w),
    ("mean", lambda: (x @ w).mean()),
    ("microbatches of all rows", lambda: microbatches_of(x, 4)),
    ("microbatches in shard_map", lambda: in_map(x)),
):
    try:
        with jax.set_mesh(explicit):
            spec = jax.typeof(make()).sharding.spec
        print(f"{name}: {[axis for axis in spec if axis] or 'over none'}")
    except Exception:
        print(f"{name}: JAX asks for its out_sharding")

# %% [markdown]
# ## 11. Pipeline parallelism
#
# A data x model mesh (lesson 4) splits layers. A **pipeline** gives each device whole
# layers, a *stage*, and sends activations on. While device 1 works on one microbatch,
# device 0 takes the next (the GPipe schedule).

# %%
draw_schedule(4, 6, "Four stages, six microbatches")


def stage(params, x):  # w: f32[W, W], b: f32[W]; x: f32[B, W]
    return jnp.tanh(x @ params["w"] + params["b"])


# %% [markdown]
# ### Exercise 5.7: pipeline_forward
#
# [what the stages make] `pipeline_forward(stage_params, microbatches)` returns what S
# stages in turn (`stage`, each with its parameters) make of each of M microbatches.
#
# - [stage s on device s] Use `shard_map` on a mesh with one axis: the first S devices, in
#   their order. Stage s runs on device s.
# - [its own stage alone] In the program, each device holds the parameters of its own
#   stage alone.
# - [ticks] M + S - 1 ticks. In each, a device sends one microbatch to the next device by
#   `ppermute`; the last device may send to the first. In the last tick they need not.
# - [nothing else is sent] Besides, results may be sent once, at the end. They may lie
#   anywhere.


# %% exercise="pipeline_forward" minutes=26 difficulty=3
def pipeline_forward(stage_params, microbatches):
    """Computes a pipeline's results by the GPipe schedule.

    Args:
        stage_params: {"w": f32 (S, W, W), "b": f32 (S, W)}.
        microbatches: f32 (M, B, W), finite.

    Returns:
        f32 (M, B, W).
    """

    ### BEGIN SOLUTION
    def run(params, xs):
        own, me = jax.tree.map(lambda a: a[0], params), jax.lax.axis_index("data")

        def tick(received, time):
            x = jnp.where(me == 0, xs[jnp.minimum(time, len(xs) - 1)], received)
            y = stage(own, x)
            return jax.lax.ppermute(y, "data", to_the_right), y

        times = jnp.arange(len(xs) + last)
        return jax.lax.scan(tick, jnp.zeros_like(xs[0]), times)[1][None, last:]

    last = len(stage_params["w"]) - 1
    to_the_right = [(s, s + 1) for s in range(last)]
    specs = {"in_specs": (P("data"), P()), "out_specs": P("data"), "check_vma": False}
    spread = jax.shard_map(run, mesh=make_mesh(last + 1), **specs)
    return jax.jit(spread)(stage_params, microbatches)[-1]
    ### END SOLUTION


# %% [markdown] hints="pipeline_forward"
# - `in_specs=(P("data"), P())` gives each device its stage, with a leading axis of 1, and
#   all microbatches. With `check_vma=False`, as in 5.2.
# - `scan` over ticks; what is carried is the microbatch that came from the left. Device 0
#   takes microbatch t instead (`jnp.where`).
# - The last device's results of the last M ticks are the answer: return every device's
#   with `out_specs=P("data")` and take the last.

# %% check="pipeline_forward"

# %% [markdown]
# ## 12. A pipeline that trains
#
# For a gradient, each stage also goes **backward** over each microbatch, from the last
# stage to the first. Until then it keeps what its forward computed.
#
# A schedule says what stages do: `schedule[tick][stage]` is `("F", m)`, forward over
# microbatch m, `("B", m)`, backward, or `None`. GPipe goes forward over all, then
# backward.
#
# **Predict, then run.** For how many microbatches at once does a stage keep something?

# %%
from coursekit.draw.canvas import FAINT, INK, TINTS, show, titled
from matplotlib import pyplot as plt


def draw_table(rows, below, title):  # each row's texts, by its name; "" is empty
    size = (9, 1.4 + 0.42 * len(rows))
    figure, axes = plt.subplots(figsize=size, facecolor="white")
    for y, texts in enumerate(rows.values()):
        for x, text in enumerate(texts):
            tint = {"": "none", "B": TINTS[5]}.get(text[:1], TINTS[1])
            look = {"facecolor": tint, "edgecolor": INK if text else FAINT}
            look |= {"linestyle": "-" if text else ":", "zorder": 2 if text else 1}
            axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, **look))
            axes.text(x, y, text, ha="center", va="center", color=INK, fontsize=9)
    axes.set_xlim(-0.5, len(texts) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_xlabel(below)
    axes.set_title(title, fontsize=11)
    figure.tight_layout()
    words = (f"{name}: {' '.join(t or '-' for t in row)}" for name, row in rows.items())
    show(figure, titled(title, f"{'; '.join(words)}."))


# %%
def gpipe(num_stages, num_microbatches):
    half = num_microbatches + num_stages - 1  # ticks
    schedule = [[None] * num_stages for _ in range(2 * half)]
    for s, m in np.ndindex(num_stages, num_microbatches):
        schedule[s + m][s] = "F", m
        schedule[half + num_stages - 1 - s + m][s] = "B", m
    return schedule


def most_kept(schedule, s):  # microbatches that stage s keeps at once
    turns = (tick[s] for tick in schedule if tick[s])
    changes = (1 if kind == "F" else -1 for kind, _ in turns)
    return max(itertools.accumulate(changes), default=0)


# %%
def draw_turns(schedule, title):
    rows = {}
    for s, turns in enumerate(zip(*schedule, strict=True)):
        texts = ["".join(map(str, turn or "")) for turn in turns]
        rows[f"stage {s} keeps {most_kept(schedule, s)}"] = texts
    draw_table(rows, "tick (F: forward, B: backward, blank: idle)", title)


draw_turns(gpipe(4, 6), "GPipe, six microbatches")

# %% [markdown]
# Every stage keeps all. More microbatches make the bubble's share smaller, but here
# memory grows with them. **1F1B**, one forward, one backward, goes backward over a
# microbatch as soon as it can.

# %% [markdown]
# ### Exercise 5.8: one_f_one_b
#
# [a schedule] `one_f_one_b(num_stages, num_microbatches)` returns a schedule of S
# stages and M microbatches, as `gpipe` does: a list of ticks, each a list of S entries.
#
# - [each once] Each stage goes forward and backward over each microbatch once.
# - [what comes before] `("F", m)` on stage s needs that of stage s - 1; `("B", m)` that
#   of stage s + 1, on the last stage its own `("F", m)`: each of an earlier tick.
# - [few are kept] A stage keeps a microbatch from its forward to its backward: stage s at
#   most S - s at once.
# - [ticks] 2 (M + S - 1) ticks, the fewest that there can be.
#
# All else, such as the microbatches' order, is free.


# %% exercise="one_f_one_b" minutes=15 difficulty=2
def one_f_one_b(num_stages, num_microbatches):
    """Makes a schedule of forwards and backwards that keeps little.

    Args:
        num_stages: S, at least 1.
        num_microbatches: M, at least 1, maybe fewer than stages, maybe thousands.

    Returns:
        `schedule[tick][stage]`: ("F", m), ("B", m) or None.
    """
    ### BEGIN SOLUTION
    num_ticks = 2 * (num_microbatches + num_stages - 1)
    schedule = [[None] * num_stages for _ in range(num_ticks)]
    for s, m in np.ndindex(num_stages, num_microbatches):
        schedule[s + 2 * m][s] = "F", m
        schedule[2 * num_stages - 1 - s + 2 * m][s] = "B", m
    return schedule
    ### END SOLUTION


# %% [markdown] hints="one_f_one_b"
# - From tick S - 1 on the last stage never rests: F 0, B 0, F 1, B 1, ... In which tick
#   is B 0 on stage s? How many forwards may the stage do until then?
# - Or tick by tick: a stage goes backward where it can; else forward, if what it
#   needs is there and it keeps fewer than S - s.
# - In closed form: F m in tick s + 2 m, B m in tick 2 S - 1 - s + 2 m.

# %% check="one_f_one_b"

# %% [markdown]
# Below, GPipe's schedule and yours run: stage s on device s, its backward by `jax.vjp`.
#
# **Predict, then run.** The bubble is as large in both. What differs, and do gradients?

# %%
forward = jax.jit(lambda own, x: jax.vjp(stage, own, x))
backward = jax.jit(lambda pull, grad: pull(grad))
slope = jax.jit(jax.grad(lambda y, target: ((y - target) ** 2).mean()))


# %%
def run_schedule(schedule, params, xs, targets):  # gradients, and what stages kept
    last, devices = len(params) - 1, jax.devices()
    params = [jax.device_put(own, devices[s]) for s, own in enumerate(params)]
    sent = {("F", m, 0): x for m, x in enumerate(xs)}
    kept, most, grads = {}, [0] * len(params), [None] * len(params)
    for tick in schedule:
        for s, turn in ((s, turn) for s, turn in enumerate(tick) if turn):
            kind, m = turn[0], int(turn[1])
            x = jax.device_put(sent.pop((kind, m, s)), devices[s])
            if kind == "F":
                y, kept[s, m] = forward(params[s], x)
                now = ("F", m, s + 1) if s < last else ("B", m, s)
                sent[now] = y if s < last else slope(y, targets[m])
            else:
                grad, sent["B", m, s - 1] = backward(kept.pop((s, m)), x)
                grads[s] = jax.tree.map(jnp.add, grads[s], grad) if grads[s] else grad
            most[s] = max(most[s], sum(at == s for at, _ in kept))
    return grads, most


# %%
def whole_loss(params, xs, targets):  # without a pipeline
    for own in params:
        xs = jax.vmap(stage, (None, 0))(own, xs)
    return ((xs - targets) ** 2).mean((1, 2)).sum()


rng = np.random.default_rng(0)
xs, targets = np.float32(rng.normal(size=(2, 6, 5, 8)))
weights = np.float32(rng.normal(size=(4, 8, 8)) / 3)
params = [{"w": w, "b": w[0]} for w in weights]  # of each stage
wanted = jax.tree.leaves(jax.grad(whole_loss)(params, xs, targets))

# %%
for make in (gpipe, one_f_one_b):
    name = make.__name__
    try:
        schedule = make(4, 6)
        if name != "gpipe":
            draw_turns(schedule, f"{name}, six microbatches")
        grads, most = run_schedule(schedule, params, xs, targets)
        pairs = zip(jax.tree.leaves(grads), wanted, strict=True)
        are_same = all(np.allclose(a, b, atol=1e-6) for a, b in pairs)
        print(f"{name}: stages keep {most}; gradients as jax.grad's: {are_same}")
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        print(f"{name} is not right yet. Solve exercise 5.8, then run this again.")

# %% [markdown]
# ## 13. A language model
#
# `full_pipeline.py --model transformer` trains a decoder-only transformer. The task
# changes:
#
# | | digits | text |
# |---|---|---|
# | rows | 64 pixels and a label | letters, and those that follow |
# | model | a perceptron | attention and a perceptron in each layer, by `scan` |
# | logical axes | units: "model" | heads, units: "model"; width: "data" (FSDP) |
# | compared with | accuracy | the text's entropy: on new text no model loses less |
#
# In small: a sentence's words are drawn evenly, but the last two: *she* or *he* follows
# from a name some 20 letters before, then *smiles*.
#
# (`--model flax-transformer`, `pipeline_flax.py`, is the same model in Flax NNX.)

# %%
WORDS = (  # one of each row
    ("ada", "bob", "eve", "max"),
    ("sees", "needs", "draws"),
    ("two", "five", "six"),
    ("red", "old", "blue"),
    ("cars", "birds", "books"),
)
LETTERS = " ,.abcdefhiklmnorstuvwx"


def text_rows(num_rows, length=48):  # letters as numbers, and those that follow
    rng, text = np.random.default_rng(0), ""
    while len(text) <= num_rows * length:
        words = [row[rng.integers(len(row))] for row in WORDS]
        who = "she" if words[0] in ("ada", "eve") else "he"
        text += f"{' '.join(words)}, {who} smiles. "
    places = np.array([LETTERS.index(letter) for letter in text], np.int32)
    pairs = places[:-1], places[1:]
    return [part[: num_rows * length].reshape(num_rows, length) for part in pairs]


# %%
def normed(h):
    return h * jax.lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-6)


def block(w, h):  # attention, then a perceptron; h: f32[B, T, W]
    q, k, v = jnp.einsum("btw,wkhs->kbths", normed(h), w["qkv"])
    scores = jnp.einsum("bths,buhs->bhtu", q, k) / q.shape[-1] ** 0.5
    scores = jnp.where(jnp.tri(h.shape[1], dtype=bool), scores, -jnp.inf)
    mixed = jnp.einsum("bhtu,buhs->bths", jax.nn.softmax(scores), v)
    h = h + jnp.einsum("bths,hsw->btw", mixed, w["out"])
    return h + jax.nn.gelu(normed(h) @ w["up"]) @ w["down"]


def next_letters(params, x):  # i32[B, T] -> f32[B, T, letters]
    h = params["letters"][x] + params["places"][: x.shape[1]]
    h, _ = jax.lax.scan(lambda h, w: (block(w, h), None), h, params["layers"])
    return normed(h) @ params["letters"].T


# %% [markdown]
# Logical axes give each parameter its shape and, by rules, its layout (lesson 4).
#
# **Predict, then run.** On a 4 x 2 mesh, what part of each matrix does a device hold?

# %%
AXES = {"letters": "letter width", "places": "place width"}
AXES["layers"] = {
    "qkv": "layer width kind heads size",
    "out": "layer heads size width",
    "up": "layer width units",
    "down": "layer units width",
}
SIZES = {"letter": len(LETTERS), "place": 48, "width": 48, "layer": 2, "kind": 3}
SIZES |= {"heads": 4, "size": 12, "units": 192}
RULES = {"width": "data", "heads": "model", "units": "model"}
two_axes = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
shapes = jax.tree.map(lambda axes: [SIZES[name] for name in axes.split()], AXES)
for name, axes in AXES["layers"].items():
    spec = P(*map(RULES.get, axes.split()))
    part = NamedSharding(two_axes, spec).shard_shape((*shapes["layers"][name],))
    print(f"{name}: {shapes['layers'][name]}, a device holds {[*part]}")

# %% [markdown]
# Trained on one device, to be quick. The loss stays above the entropy: rows begin
# within sentences.


# %%
def text_loss(params, x, y):
    logits = next_letters(params, x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@jax.jit
def text_step(params, moments, x, y):
    loss, grads = jax.value_and_grad(text_loss)(params, x, y)
    updates, moments = optax.adam(0.005).update(grads, moments)
    return optax.apply_updates(params, updates), moments, loss


x, y = text_rows(2048)
rng = np.random.default_rng(0)
is_shape = {"is_leaf": lambda shape: isinstance(shape, list)}
params = jax.tree.map(lambda s: np.float32(rng.normal(size=s) / 8), shapes, **is_shape)
moments, losses = optax.adam(0.005).init(params), []
for step in range(300):
    rows = (16 * step + np.arange(16)) % len(x)
    params, moments, loss = text_step(params, moments, x[rows], y[rows])
    losses.append(float(loss))


# %%
entropy = sum(np.log(len(row)) for row in WORDS) * np.mean(x == LETTERS.index("."))
smooth = np.convolve(losses, np.full(25, 1 / 25), "valid") / entropy
curves = {"training, a mean of 25 steps": smooth, "the text": np.ones(276)}
curves["all letters alike"] = np.full(276, np.log(len(LETTERS)) / entropy)
draw_losses(curves, "loss / the text's entropy", "A transformer learns to write")
guess = jax.jit(next_letters)
for text in ("eve sees two old birds, ", "max needs five blue books, "):
    while not text.endswith("."):
        row = np.array([[LETTERS.index(letter) for letter in text.ljust(48)]])
        text += LETTERS[int(guess(params, row)[0, len(text) - 1].argmax())]
    print(text)

# %% [markdown]
# ### Exercise 5.9: run_layers
#
# [what the layers make] `run_layers(layer, params, x)` returns what L layers in turn
# make of `x`. `params` is a tree of stacked arrays (L, ...), `layer(own, x)` takes one
# layer's part of it and returns an array like `x`.
#
# For the gradient, a `scan` keeps all that a layer computed, of every layer. **Activation
# checkpointing** keeps less and computes it again.
#
# - [the same gradient] Gradients are those of the layers called one by one, also of
#   arrays that `layer` has from elsewhere.
# - [inputs alone are kept] For gradients, no more than each layer's input is kept, as
#   `jax.checkpoint` does.
# - [one loop] The compiled program is a loop over the layers: more layers do not make
#   it longer.


# %% exercise="run_layers" minutes=11 difficulty=2
def run_layers(layer, params, x):
    """Computes layers in turn, and keeps for the gradient their inputs alone.

    Args:
        layer: (own, x) -> an array like x.
        params: a tree of f32 (L, ...); `own` holds (...).
        x: f32 (B, W).

    Returns:
        f32 (B, W).
    """
    ### BEGIN SOLUTION
    kept = jax.checkpoint(layer)
    return jax.lax.scan(lambda x, own: (kept(own, x), None), x, params)[0]
    ### END SOLUTION


# %% [markdown] hints="run_layers"
# - `jax.lax.scan(step, x, params)` gives `step(x, own)` each layer's part in turn; it
#   returns the new x, and `None`.
# - `jax.checkpoint(layer)` is the same function, of which the gradient keeps the inputs
#   alone. It goes around one layer: around the scan it would keep the layers' insides
#   again.

# %% check="run_layers"

# %% [markdown]
# ## 14. Each process reads its own rows
#
# `place` (section 1) cuts an array that every process holds whole. Of terabytes on
# disks, a process should read what its own devices hold.
#
# **Predict, then run.** Rows are split over "data" of the 4 x 2 mesh. How often is each
# row read?


# %%
def place_from_disk(read, sharding, shape):
    def part_of(index):
        first, last, _ = index[0].indices(shape[0])
        return read(first, last)[:, *index[1:]]

    return jax.make_array_from_callback(shape, sharding, part_of)


def disk(counts, num_columns=4):  # read(first, last) gives rows, and counts them
    def read(first, last):
        counts[first:last] += 1
        rows = np.arange(first, last, dtype=np.float32)
        return np.tile(rows[:, None], num_columns)

    return read


counts = np.zeros(16, int)
place_from_disk(disk(counts), NamedSharding(two_axes, P("data")), (16, 4))
print("each row is read so many times:", *np.unique(counts))

# %% [markdown]
# Two devices hold each row; `part_of` runs once for each.
#
# A global array can also be made of parts: each process gives those of its own devices to
# `jax.make_array_from_single_device_arrays`.

# %% [markdown]
# ### Exercise 5.10: read_own_rows
#
# [each device its part] `read_own_rows(read, sharding, shape, devices)` returns a list:
# for each of `devices`, in their order, an array on it, its part of the global array of
# `shape` as `sharding` lays it out. `read(first, last)` returns the global array's rows
# from `first` to `last - 1`, whole, as a NumPy array; parts have its dtype (32 bits or
# fewer).
#
# - [own rows alone] Rows that none of `devices` holds are not read.
# - [each row once] The others are read once, even if several hold them or parts of them.
#
# `devices` are those of one process. Use them, not `sharding.addressable_devices`: in
# this notebook one process has all. How many calls of `read` it takes is free. The host
# may hold other columns, too.


# %% exercise="read_own_rows" minutes=13 difficulty=2
def read_own_rows(read, sharding, shape, devices):
    """Reads what some devices hold of a global array, each row once.

    Args:
        read: (first, last) -> a NumPy array (last - first, ...): whole rows.
        sharding: of the global array; it splits `shape` evenly.
        shape: of the global array; it has at least one axis.
        devices: some of the sharding's.

    Returns:
        A list: each device's part, on it.
    """
    ### BEGIN SOLUTION
    places, rows, parts = sharding.devices_indices_map(shape), {}, []
    for device in devices:
        own, *others = places[device]
        first, last, _ = own.indices(shape[0])
        if first not in rows:
            rows[first] = read(first, last)
        parts.append(jax.device_put(rows[first][:, *others], device))
    return parts
    ### END SOLUTION


# %% [markdown] hints="read_own_rows"
# - `sharding.devices_indices_map(shape)[device]` is a tuple of slices, one for each axis.
#   `slice(None)` is all of it; `own.indices(size)` makes numbers of any slice.
# - Devices have the same rows, or none in common: keep what was read in a dict, by its
#   first row.
# - `jax.device_put(part, device)`, where `part` has the other axes cut, too: a device may
#   hold some columns alone.

# %% check="read_own_rows"

# %% [markdown]
# Below, two processes with four devices each load an array by your function.
#
# **Predict, then run.** Which rows do both read, if "model" splits them?


# %%
def load_rows(read, sharding, shape):  # each process serves its own devices
    own = sorted(sharding.addressable_devices, key=lambda device: device.id)
    parts = read_own_rows(read, sharding, shape, own)
    return jax.make_array_from_single_device_arrays(shape, sharding, parts)


def write_counts(directory, spec):
    """Loads rows, and writes down how often this process reads each."""
    counts, types = np.zeros(16, int), (AxisType.Auto,) * 2
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=types)
    load_rows(disk(counts), NamedSharding(mesh, P(*spec)), (16, 4))
    path = Path(directory, f"{jax.process_index()}.txt")
    np.savetxt(path, counts, "%d")


def counts_of_two(spec):
    write_script(script := Path(tempfile.mkdtemp(), "rows.py"), write_counts)
    ended = run_script(script, {"directory": str(script.parent), "spec": spec}, 2)
    paths = sorted(script.parent.glob("*.txt"))
    return ended, [np.loadtxt(path, int).tolist() for path in paths]


# %%
for spec in (["data"], ["model"]):
    seen = observe(counts_of_two, spec)
    if seen.error or seen.value[0] != "finished":
        print(seen.error.message if seen.error else seen.value[0])
        print("Solve exercise 5.10, then run this again.")
        break
    rows = {
        f"process {number}": [f"{count}x" * bool(count) for count in counts]
        for number, counts in enumerate(seen.value[1])
    }
    draw_table(rows, "row: how often it is read", f"Split over {spec[0]}")

# %% [markdown]
# ## 15. All together
#
# Below `fit` trains once more, with your 5.3; then your 5.5 lays its checkpoint out on
# the 4 x 2 mesh.
#
# **Predict, then run.** How far apart are the losses?


# %%
def fit_with(loss_fn, config):  # fit, where make_task gives another loss
    data, _, init = make_task(config)
    other = {"make_task": lambda config: (data, loss_fn, init)}
    with mock.patch.dict(globals(), other):
        fit(config)
    log = Path(config["directory"], "metrics.jsonl").read_text().splitlines()
    return np.array([json.loads(line)["loss"] for line in log])


def restored_by_columns(directory, step):  # each matrix split over "model"
    with open_manager(directory) as manager:
        shapes = saved_shapes(manager, step)
    columns = {2: P(None, "model")}
    specs = jax.tree.map(lambda leaf: columns.get(leaf.ndim, P()), shapes)
    return restore_elsewhere(directory, two_axes, specs)


def run_both():
    folder, losses = tempfile.mkdtemp(), {}
    for name, loss_fn in {"whole": digits_loss, "mixed": mixed_precision_loss}.items():
        losses[name] = fit_with(loss_fn, config_of(f"{folder}/{name}", num_steps=30))
    state = restored_by_columns(f"{folder}/mixed/checkpoints", 30)
    return losses, state["params"]["w1"]


# %%
seen = observe(run_both)
if seen.error:
    print(f"{seen.error.kinds[0]}: {seen.error.message}")
    print("Solve exercises 5.1 to 5.6, then run this again.")
else:
    far = np.abs(np.subtract(*seen.value[0].values())).max()
    print(f"the losses differ, but by less than 0.01: {0 < far < 0.01}")
    for shard in seen.layout["[1]"][:2]:
        rows, columns = (f"{first} to {stop - 1}" for first, stop in shard.index)
        print(f"device {shard.device} holds rows {rows}, columns {columns} of w1")

# %% [markdown]
# **Your score.** The scorecard shows what the checks above said last. Save the notebook,
# then run `make grade` in a terminal, in the course's folder: it grades the saved file as
# a class's work is graded, and shows the same cards.

# %% scorecard=true
