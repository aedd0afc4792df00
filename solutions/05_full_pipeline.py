# %% [markdown]
# # Lesson 5. The full pipeline
#
# COLAB_BADGE
#
# A run reads every row, takes hours, is killed, and goes on as if nothing had happened,
# perhaps elsewhere. At the end of this lesson you hold such a program.
#
# **After this lesson you can**
#
# - feed devices with fresh data, and continue the stream at any step;
# - write a compiled step that accumulates, synchronises once and reuses memory;
# - compute in bfloat16 without losing accuracy where it counts;
# - save, kill, resume: bit for bit on the same devices, and on fewer;
# - run the same script as several processes.
#
# **You need** lessons 1 to 4. **Time**: about 120 minutes, seven exercises; before
# section 6 is a good place to pause.

# %% setup=true

# %% [markdown]
# ## 1. Data
#
# A whole small pipeline: 4,096 rows of 32 features, a linear model, batches of 256 split
# over eight devices, 500 steps of SGD.
#
# **Common mistake: one batch for ever.** Many examples cut the first 256 rows once,
# outside of the loop. The loss falls nicely.
#
# **Predict, then run.** The true weights are known. How far from them does each run end?

# %%
import itertools
import os
from importlib.metadata import distribution
from pathlib import Path

import optax
from coursekit.compiled_program import CompiledProgram
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def make_mesh(num_devices):  # the first devices, in a row
    if num_devices > jax.device_count():
        raise ValueError(f"a mesh of {num_devices} on {jax.device_count()} devices")
    devices, types = jax.devices()[:num_devices], (AxisType.Auto,)
    return jax.make_mesh((num_devices,), ("data",), axis_types=types, devices=devices)


def place(array, sharding):  # each device gets its part, each process serves its own
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
# The printed losses do not tell the runs apart, the weights do: 3,840 rows were never seen. And
# after a kill the stream must go on *where it was*.
#
# So we make the stream a **function of the step**. `epoch_order(seed, epoch, num_rows)`
# gives the order of an epoch's rows; epoch after epoch they make one endless line. Batch k
# is the k-th piece of it: of 10 rows in batches of 4, batch 2 takes the last two rows of
# epoch 0 and the first two of epoch 1.


# %% [markdown]
# ### Exercise 5.1: batches
#
# `batches(data, batch_size, sharding, seed, start_step)` is a generator of batches for
# ever, beginning with number `start_step`. `data` is a tuple of arrays with N rows each;
# a batch is a tuple of `jax.Array`s with `batch_size` rows, laid out by `sharding`.
#
# - Rows come in the order above; a batch may hold rows of several epochs.
# - **The next batch is on its way**: when one is handed out, the one after it has been
#   placed already, and no more.
# - A `batch_size` that does not divide over the devices is a `ValueError` naming both
#   numbers. (JAX's own will do.)
#
# Use `place`: it also works with several processes.


# %% exercise="batches" minutes=15 difficulty=2
def batches(data, batch_size, sharding, seed, start_step):
    """Yields batches for ever, the next one already on its way.

    Args:
        data: a tuple of host arrays (N, ...).
        batch_size: rows in a batch, over all devices.
        sharding: how a batch's rows lie.
        seed: of the epochs' orders.
        start_step: number of the first batch.

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
# - Batch k holds places `k * batch_size` to `(k + 1) * batch_size` of the endless line;
#   `np.divmod(places, N)` gives each place's epoch and its index there.
# - Write a function `ready(step)` that makes one batch. The generator keeps one made
#   ahead.
# - `now, ahead = ahead, ready(step)`, then `yield now`.


# %% helpers="batches"
def take(x, y, batch_size, num_devices, seed, start_step, count):
    by_rows = NamedSharding(make_mesh(num_devices), P("data"))
    stream = batches((x, y), batch_size, by_rows, seed, start_step)
    return {f"batch {start_step + k}": next(stream) for k in range(count)}


def count_ready(x, y, batch_size, count):  # batches on the devices, each time
    stream = batches((x, y), batch_size, NamedSharding(make_mesh(8), P("data")), 0, 0)
    found, shape = [], (batch_size, *x.shape[1:])
    for _ in range(count):
        batch = next(stream)
        there = batch[0].shape == shape
        found.append(there * sum(a.shape == shape for a in jax.live_arrays()))
    return found


def numbered(num_rows, *shape):  # x: every row holds its number; y: the number
    y = np.arange(num_rows, dtype=np.int32)
    rows = y.reshape(-1, *[1] * len(shape))
    return np.broadcast_to(rows, (num_rows, *shape)).astype(np.float32), y


def cut_line(data, batch_size, line, first, count):  # batches from rows in a line
    found = {}
    for k in range(first, first + count):
        rows = line[k * batch_size : (k + 1) * batch_size]
        found[f"batch {k}"] = tuple(array[rows] for array in data)
    return found


def epochs_line(seed, num_epochs, num_rows):  # as the statement says
    orders = [epoch_order(seed, epoch, num_rows) for epoch in range(num_epochs)]
    return np.concatenate(orders)


def batch_mistakes(data, batch_size, seed, first, count):  # what other streams give
    size, kept = len(data[0]), len(data[0]) // batch_size * batch_size
    orders, start = epochs_line(seed, 9, size), first * batch_size
    lines = {
        "every epoch has the order of the first": np.tile(orders[:size], 9),
        "the rest of an epoch is dropped": orders.reshape(9, size)[:, :kept].ravel(),
        "rows come in the order of the file": np.arange(9 * size) % size,
        "the orders are those of another seed": epochs_line(0, 9, size),
    }
    for cause, place in (
        ("start_step is not used", 0),
        ("start_step is the number of a batch, not of a row", first),
        ("the epoch begins again: rows come twice", start // size * size),
    ):
        lines[cause] = np.r_[orders[:start], orders[place:]]
    return {
        cause: cut_line(data, batch_size, line, first, count)
        for cause, line in lines.items()
        if first or not cause.startswith(("start_step", "the epoch"))
    }


# %% check="batches" points=3
data = x, y = numbered(20, 7)
for first, count in ((0, 7), (4, 2)):
    seen = observe(take, x, y, 8, 8, 3, first, count)
    wanted = cut_line(data, 8, epochs_line(3, 4, 20), first, count)
    expect_close(seen, wanted, mistakes=batch_mistakes(data, 8, 3, first, count))
    expect_devices(seen, 8, likely="place(array, sharding) splits the rows")
seen = observe(count_ready, x, y, 8, 3)
headline = f"{seen.value} batches were on the devices when one was handed out."
late = "the next batch is placed before the yield, not when it is asked for"
rows = {"expected": "2 each time: this one and the next"}
rows["likely"] = late if min(seen.value) < 2 else "one batch ahead is enough"
expect(seen, seen.value == [2, 2, 2], headline, **rows)
expect_error(observe(take, x, y, 12, 8, 3, 0, 1), "ValueError", [12, 8])
### BEGIN HIDDEN TESTS
x, y = numbered(10, 2, 3)
x = np.uint8(x)
line = epochs_line(7, 1004, 10)
for num_devices, start in ((4, 1), (2, 400)):
    seen = observe(take, x, y, 24, num_devices, 7, start, 2)
    expect_close(seen, cut_line((x, y), 24, line, start, 2))
    for pieces in seen.layout.values():
        expect(
            seen, len({p.index for p in pieces}) == num_devices, "Rows are not split."
        )
seen = observe(count_ready, x, y, 40, 3)
expect(seen, seen.value == [2, 2, 2], "Another number of batches was ready.")
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The step
#
# A batch that is too large for memory goes in **microbatches**: their gradients are added
# up, then the optimizer steps once. One sync is enough, *after* the loop.
#
# **Predict, then run.** Below, `jit` alone gets the loop, of four microbatches. How much
# does a device send, against one sync?


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
once = 2 * 7 / 8 * sum(leaf.nbytes for leaf in jax.tree.leaves(params))
print(f"a device sends {sent / once:.1f} times the gradient's all-reduce")

# %% [markdown]
# Under `jit` each microbatch's gradient is whole, so each gets its all-reduce. Under
# `shard_map` you say what *one device* does, and the sync is yours to place. (With
# `check_vma=False`, and `pmean` of the gradients: lesson 3.)
#
# And memory: a step that **donates** its state writes the new one where the old one was.
# The old arrays are gone after the call.

# %% [markdown]
# ### Exercise 5.2: make_train_step
#
# `make_train_step(loss_fn, optimizer, mesh, num_microbatches)` returns a compiled function
# `(state, batch) -> (state, metrics)`. `state` is `{"params", "opt_state"}`, whole on every
# device; `batch` is a tuple of arrays split by rows over `"data"`. `loss_fn(params, *batch)`
# is a mean over rows.
#
# - Each device takes its rows in `num_microbatches` pieces of the same size.
# - `metrics` is `{"loss", "grad_norm"}`: of the whole batch, the norm of its gradient as
#   one vector (`optax.tree.norm`), before the optimizer clips it.
# - Devices exchange each gradient once per step. The old state is donated. Steps of the
#   same shapes compile once.


# %% exercise="make_train_step" minutes=18 difficulty=3
def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    """Makes the compiled training step.

    Args:
        loss_fn: (params, *batch) -> f32 (), a mean over rows.
        optimizer: of Optax.
        mesh: devices along "data".
        num_microbatches: pieces that a device takes one after the other.

    Returns:
        (state, batch) -> (state, {"loss": f32 (), "grad_norm": f32 ()}).
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


# %% helpers="make_train_step"
from coursekit.observe import num_compiles


def make_sgd():
    return optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))


def prepared(params, x, y, num_microbatches, num_devices):  # for the checks
    mesh, optimizer = make_mesh(num_devices), make_sgd()
    state = {"params": params, "opt_state": optimizer.init(params)}
    state = jax.device_put(jax.tree.map(jnp.array, state), NamedSharding(mesh, P()))
    batch = jax.device_put((x, y), NamedSharding(mesh, P("data")))
    return make_train_step(digits_loss, optimizer, mesh, num_microbatches), state, batch


def run_steps(params, x, y, num_microbatches, num_devices, num_steps):
    step, state, batch = prepared(params, x, y, num_microbatches, num_devices)
    history = []
    for _ in range(num_steps):
        state, metrics = step(state, batch)
        history.append(metrics)
    return {"params": state["params"], "metrics": history}


def long_run(params, x, y, num_steps):  # also: old arrays gone?, compiled again
    step, old, batch = prepared(params, x, y, 2, 8)
    state, history, compiled = old, [], []
    for _ in range(num_steps):
        state, metrics = step(state, batch)
        history.append(jax.block_until_ready(metrics))
        compiled.append(num_compiles())
    gone = all(leaf.is_deleted() for leaf in jax.tree.leaves(old))
    facts = {"gone": gone, "again": compiled[-1] - compiled[1]}
    return facts | {"params": state["params"], "metrics": history}


def reference_steps(params, x, y, num_steps, times=1, losses=1):  # times: too large
    history, speed = [], dict.fromkeys(params, 0)
    for _ in range(num_steps):
        loss, grads = reference_perceptron(params, x, y)
        grads = {name: times * g for name, g in grads.items()}
        norm, clipped = reference_norm(grads), reference_clip(grads, 1)
        history.append({"loss": losses * loss, "grad_norm": norm})
        speed = {name: 0.9 * speed[name] + g for name, g in clipped.items()}
        params = {name: params[name] - 0.1 * speed[name] for name in params}
    return {"params": params, "metrics": history}


def step_mistakes(params, x, y):  # with 8 devices, 4 microbatches
    case, own = (params, x, y, 1), (params, x[:12], y[:12], 1)
    found = {
        "a device steps on its own rows: pmean is missing": own,
        "8 devices' gradients add up: check_vma=False is missing": (*case, 8),
        "8 devices' gradients are added up: pmean averages": (*case, 8, 8),
        "4 microbatches' gradients are added up, not averaged": (*case, 4),
        "4 microbatches' means are added up, not averaged": (*case, 4, 4),
    }
    found = {cause: reference_steps(*one) for cause, one in found.items()}
    rows = zip(*microbatches_of((x, y), 32), strict=True)
    losses = np.array([reference_perceptron(params, *piece)[0] for piece in rows])
    right = reference_steps(params, x, y, 1)
    for cause, name, wrong in (
        ("grad_norm is measured behind the clipping", "grad_norm", np.float64(1)),
        ("the loss is one device's: pmean is missing", "loss", losses[:4].mean()),
        ("the loss is that of the last microbatch", "loss", losses[3::4].mean()),
    ):
        found[cause] = right | {"metrics": [right["metrics"][0] | {name: wrong}]}
    return found


def expect_microbatches(seen):  # of 8 devices with 12 rows each, 4 microbatches
    likely = 'each device takes its own rows: in_specs=(P(), P("data"))'
    expect_collectives(seen, never=("all-gather",), likely=likely)
    likely = "the sync belongs behind the loop over microbatches"
    expect_collectives(seen, in_loop=False, likely=likely)
    likely = "a device takes all its rows at once, not one microbatch after another"
    for shape in ((12, 16), (4, 3, 16)):
        expect_arrays(seen, never=shape, likely=likely)


def digits_case(seed, num_rows, hidden=16, scale=1):  # made-up images
    rng = np.random.default_rng(seed)
    x = np.float32(scale * rng.normal(size=(num_rows, 64)))
    params = jax.tree.map(np.asarray, init_params(jax.random.key(seed), hidden))
    return params, x, np.int32(rng.integers(0, 10, num_rows))


# %% check="make_train_step" points=4
params, x, y = digits_case(1, 96, scale=4)
seen = observe(run_steps, params, x, y, 4, 8, 1, compiled=True)
wanted, causes = reference_steps(params, x, y, 1), step_mistakes(params, x, y)
expect_close(seen, wanted, rtol=1e-3, atol=1e-5, mistakes=causes)
expect_microbatches(seen)
expect_one_sync(seen, params, 8, spare=0.05)
seen = observe(long_run, params, x, y, 20)
expect_result(seen)
headline, likely = "The old state is still there.", "donate it: donate_argnums=0"
expect(seen, seen.value["gone"], headline, likely=likely)
headline = f"Later steps compiled {seen.value['again']} programs again."
expect(seen, not seen.value["again"], headline, likely="jit once, outside of the step")
wanted = {"gone": True, "again": 0} | reference_steps(params, x, y, 20)
expect_close(seen, wanted, rtol=1e-3, atol=1e-4)
### BEGIN HIDDEN TESTS
params, x, y = digits_case(2, 12, 8, scale=3)
seen = observe(run_steps, params, x, y, 3, 2, 3)
expect_close(seen, reference_steps(params, x, y, 3), rtol=1e-3, atol=1e-4)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. bfloat16 where it is safe
#
# GPUs and TPUs multiply bfloat16 matrices several times as fast as float32. bfloat16
# keeps float32's range and gives up precision: 8 bits of it instead of 24.
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
# **parameters, gradients, optimizer state and losses stay float32**; matrix products read
# bfloat16 copies made inside of the loss.

# %% [markdown]
# ### Exercise 5.3: mixed_precision_loss
#
# `mixed_precision_loss(params, x, y)` is `digits_loss` (section 2) in mixed precision.
# `y` holds whole numbers; all other inputs are float32.
#
# - Every matrix product multiplies bfloat16 by bfloat16.
# - From the logits on everything is float32: softmax, the mean, the result.
# - Gradients with respect to `params` come out as float32.


# %% exercise="mixed_precision_loss" minutes=8 difficulty=1
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


# %% helpers="mixed_precision_loss"
def mixed_loss(params, x, y):
    return jax.jit(mixed_precision_loss)(params, x, y)


def mixed_grads(params, x, y):
    return jax.jit(jax.grad(mixed_precision_loss))(params, x, y)


# %% check="mixed_precision_loss" points=2
params, x, y = digits_case(5, 32)
seen = observe(mixed_loss, params, x, y, traced=True)
expect_shapes(seen, np.float32(0))
likely = "cast both factors to bfloat16: with a float32 one the product is float32"
expect_dtypes(seen, matmul="bf16", likely=likely)
likely = "cast the logits to float32 before the softmax"
expect_dtypes(seen, exp="f32", sum="f32", likely=likely)
expect_close(seen, reference_perceptron(params, x, y)[0], rtol=0.02, atol=0)
headline = "The loss has no more digits than a bfloat16."
few = seen.value.astype(jnp.bfloat16).astype(np.float32) == seen.value
expect(seen, not few, headline, likely="losses or their mean were cast down")
seen = observe(mixed_grads, params, x, y)
likely = "differentiate with respect to the float32 parameters: cast inside of the loss"
expect_close(
    seen, reference_perceptron(params, x, y)[1], rtol=0.1, atol=0.01, likely=likely
)
### BEGIN HIDDEN TESTS
params, x, y = digits_case(6, 7, 24, scale=20)
seen = observe(mixed_loss, params, x, y)
expect_close(seen, reference_perceptron(params, x, y)[0], rtol=0.05, atol=0)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Checkpoints
#
# So that a resumed run ends with the *same bits*, a checkpoint holds all that the next step
# reads: parameters, optimizer state, the position in the data, random keys.
#
# **Orbax** writes it, each process what its devices hold. `save` copies the state and
# returns; writing goes on while you train, and donating the state right after is safe. A
# checkpoint counts once it is complete.
#
# **Common mistake: restoring without a target.** What becomes of the tuple in the
# optimizer's state?


# %%
import tempfile

import orbax.checkpoint as ocp
from orbax.checkpoint.args import Composite, JsonRestore, JsonSave
from orbax.checkpoint.args import StandardRestore, StandardSave


def open_manager(directory, keep=2):  # of a folder of checkpoints; the last few stay
    handlers = {
        "state": ocp.StandardCheckpointHandler(),
        "facts": ocp.JsonCheckpointHandler(),
    }
    options = ocp.CheckpointManagerOptions(max_to_keep=keep)
    return ocp.CheckpointManager(
        Path(directory).absolute(), options=options, item_handlers=handlers
    )


def abstract(tree):  # shapes, dtypes and shardings of a tree of arrays
    return jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), tree
    )


def saved_shapes(manager, step):  # the saved tree: shapes and dtypes, no layout
    tree = manager.item_metadata(step).state.tree
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


# %%
import logging

logging.getLogger("absl").setLevel(
    logging.ERROR
)  # Orbax's remarks on what it tidies up
params = jax.device_put(init_params(jax.random.key(0)), whole)
state = {"params": params, "opt_state": make_sgd().init(params)}
folder = tempfile.mkdtemp()
with open_manager(folder) as manager:
    parts = {
        "state": StandardSave(state),
        "facts": JsonSave({"hidden": 32}),
    }
    manager.save(10, args=Composite(**parts))
    manager.wait_until_finished()
    for name, target in (("no target", None), ("a target", abstract(state))):
        wanted = Composite(state=StandardRestore(target))
        found = manager.restore(10, args=wanted).state
        print(
            f"{name}: the optimizer's state comes back as a {type(found['opt_state']).__name__}"
        )

# %% [markdown]
# A target of abstract arrays gives back structure, dtypes *and layout*. Without one Orbax
# also wants the same devices again.

# %% [markdown]
# ### Exercise 5.4: restore_state, and save_state
#
# `save_state(manager, step, state, facts)` starts to save `state` (a tree of arrays) and
# `facts` (plain data, as JSON), as items `"state"` and `"facts"` as above.
#
# `restore_state(manager, fresh, settings)` returns `(step, state, facts)` of the newest
# checkpoint, laid out as the state `fresh` is; `(0, fresh, {})` where there is none.
#
# - Where an entry of `settings` differs from that of `facts`, or is missing there, it
#   belongs to another run: `ValueError` naming the entry.
# - A damaged one (restoring raises): print its step, delete it (`manager.delete(step)`:
#   else Orbax would not save there again), take the one before. (A model that changed
#   raises, too: with real runs, move it aside instead.)


# %% exercise="restore_state" minutes=18 difficulty=2
def save_state(manager, step, state, facts):
    """Starts to save a state and the facts that belong to it.

    Args:
        manager: an Orbax `CheckpointManager`.
        step: number of steps done.
        state: a tree of arrays.
        facts: plain data by name.
    """
    ### BEGIN SOLUTION
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))
    ### END SOLUTION


def restore_state(manager, fresh, settings):
    """Restores the newest sound checkpoint.

    Args:
        manager: an Orbax `CheckpointManager`.
        fresh: a state to start with: a tree of arrays in their layout.
        settings: entries that the checkpoint's facts must have, by name.

    Returns:
        (step, state, facts); (0, fresh, {}) where there is no checkpoint.

    Raises:
        ValueError: a checkpoint of another run (names the entry).
    """
    ### BEGIN SOLUTION
    for step in sorted(manager.all_steps(), reverse=True):
        try:
            found = manager.restore(step, args=Composite(facts=JsonRestore()))
            other = [n for n in settings if found.facts.get(n) != settings[n]]
            if not other:
                like = StandardRestore(abstract(fresh))
                state = manager.restore(step, args=Composite(state=like)).state
                return step, state, found.facts
        except Exception as error:
            print(f"Checkpoint {step} is damaged: {type(error).__name__}.")
            manager.delete(step)
        else:
            raise ValueError(f"{other[0]} is {settings[other[0]]}, but was not")
    return 0, fresh, {}
    ### END SOLUTION


# %% [markdown] hints="restore_state"
# - `manager.all_steps()` lists the steps; go through them from the newest.
# - Restore the facts alone, `Composite(facts=JsonRestore())`, and compare. Only where
#   they agree restore the state, by `StandardRestore(abstract(fresh))`.
# - `try` covers both, but not your own `ValueError`, which its `except` would take for
#   damage.


# %% helpers="restore_state"
from coursekit.observation import same


@jax.jit
def noisy_step(state, x):  # needs weights, velocity, key and data position
    key, now = jax.random.split(state["key"])
    noise = jax.random.normal(now, state["w"].shape)
    speed = 0.9 * state["speed"][0] + state["w"] - x + 0.1 * noise
    return {"w": state["w"] - 0.1 * speed, "speed": (speed,), "key": key}


def noisy_state(num_devices):
    by_rows = NamedSharding(make_mesh(num_devices), P("data"))
    whole = NamedSharding(make_mesh(num_devices), P())
    zeros = jax.device_put(np.zeros((8, 3), np.float32), by_rows)
    return {
        "w": zeros,
        "speed": (zeros,),
        "key": jax.device_put(jax.random.key(4), whole),
    }


def same_layout(a, b):
    return isinstance(a, jax.Array) and a.sharding.is_equivalent_to(b.sharding, b.ndim)


def unlike(state, fresh):  # in what a restored state differs from one to start with
    if jax.tree.structure(state) != jax.tree.structure(fresh):
        return "another structure"
    alike = jax.tree.map(same_layout, state, fresh)
    return "" if all(jax.tree.leaves(alike)) else "another layout"


def noisy_run(stops, num_devices=8, directory=None):  # saved, dropped, resumed at stops
    directory, began, other = directory or tempfile.mkdtemp(), [], ""
    for stop in stops:
        with open_manager(directory) as manager:
            fresh = noisy_state(num_devices)
            step, state, facts = restore_state(manager, fresh, {"run": "noisy"})
            began, other = [*began, step], other or unlike(state, fresh)
            position = facts.get("position", 100)  # in the data: not the step's number
            for _ in range(step, stop):
                state, position = noisy_step(state, np.float32(position)), position + 1
            facts = {"run": "noisy", "position": position}
            save_state(manager, stop, state, facts)
            state = jax.tree.map(np.asarray, {"w": state["w"], "speed": state["speed"]})
            manager.wait_until_finished()
            steps = sorted(manager.all_steps())
    found = {"state": state, "position": facts["position"], "kept": str(steps)}
    return found | {"began": began, "other": other}


def damaged_run(stops, item="state"):  # the newest is, the next half written
    directory = tempfile.mkdtemp()
    noisy_run(stops[:-1], directory=directory)
    for path in Path(directory, str(stops[-2]), item).rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    Path(directory, f"{stops[-1]}.orbax-checkpoint-tmp", "state").mkdir(parents=True)
    return noisy_run(stops[-2:], directory=directory)


def other_run(facts, settings):  # its state has one more array
    with open_manager(tempfile.mkdtemp()) as manager:
        state = noisy_state(8)
        save_state(manager, 3, state | {"more": state["w"]}, facts)
        manager.wait_until_finished()
        restore_state(manager, noisy_state(8), settings)


def no_checkpoint():
    with open_manager(tempfile.mkdtemp()) as manager:
        step, state, facts = restore_state(manager, noisy_state(8), {})
    return step, np.asarray(state["w"]), facts


def noisy_reference(num_steps):  # the run that nothing interrupted
    state = noisy_state(1)
    for position in range(100, 100 + num_steps):
        state = noisy_step(state, np.float32(position))
    return {"w": np.asarray(state["w"]), "speed": (np.asarray(state["speed"][0]),)}


def expect_resumed(seen, began, last, kept):
    expect_result(seen)
    headline = f"The runs went on from steps {seen.value['began']}."
    likely = "the newest checkpoint that is sound; a damaged one is deleted"
    rows = {"expected": f"{began}", "likely": likely}
    expect(seen, seen.value["began"] == began, headline, **rows)
    headline = f"The restored state has {seen.value['other']}."
    rows = {"expected": "structure and layout of fresh"}
    rows["likely"] = "StandardRestore(abstract(fresh)) asks for both"
    expect(seen, not seen.value["other"], headline, **rows)
    wanted = {"state": noisy_reference(last), "position": 100 + last, "kept": str(kept)}
    likely = "velocity, random key or position were not saved or not restored"
    wanted |= {"began": began, "other": ""}
    expect_close(seen, wanted, rtol=1e-4, atol=1e-5, likely=likely)


# %% check="restore_state" points=4
expect_close(observe(no_checkpoint), (0, np.zeros((8, 3), np.float32), {}))
straight, seen = observe(noisy_run, [12]), observe(noisy_run, [4, 7, 12])
expect_resumed(seen, [0, 4, 7], 12, [7, 12])
bits = straight.error is None and same(straight.value["state"], seen.value["state"])
headline = "The resumed run is not bit for bit that of an uninterrupted one."
expect(seen, bits, headline, likely="the state went through another dtype")
seen = observe(damaged_run, [4, 7, 12])
expect_resumed(seen, [4, 7], 12, [7, 12])
expect(seen, "7" in seen.printed, "No line tells of the damaged checkpoint of step 7.")
seen = observe(other_run, {"run": "noisy", "hidden": 32}, {"hidden": 64})
likely = "taken for damaged: compare first, and raise outside of the try"
expect_error(seen, "ValueError", ["hidden"], likely=likely)
### BEGIN HIDDEN TESTS
seen = observe(other_run, {"run": "noisy"}, {"run": "noisy", "hidden": 64})
expect_error(seen, "ValueError", ["hidden"])
expect_resumed(observe(damaged_run, [4, 7, 12], "facts"), [4, 7], 12, [7, 12])
expect_resumed(observe(noisy_run, [3, 5, 10, 20], 4), [0, 3, 5, 10], 20, [10, 20])
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Another machine
#
# Tomorrow's machine has four devices, or another layout is faster. A checkpoint holds
# whole arrays in pieces; each device reads those that it needs. `saved_shapes(manager,
# step)`, above, lists what is in it.

# %% [markdown]
# ### Exercise 5.5: restore_elsewhere
#
# `restore_elsewhere(directory, mesh, specs)` returns the state of the newest checkpoint
# in `directory` on `mesh`. `specs` is a tree like the saved one (of dicts), with a
# `PartitionSpec` for each array.
#
# - Values are the saved ones; layouts are as asked.
# - **No whole copy** of a split array, neither on a device nor on the host: give Orbax the
#   layout. Restoring first and placing then is too late.
# - No checkpoint there: `FileNotFoundError` naming the directory. A spec with an axis
#   that the mesh lacks: `ValueError` naming it.


# %% exercise="restore_elsewhere" minutes=10 difficulty=2
def restore_elsewhere(directory, mesh, specs):
    """Restores the newest checkpoint on a mesh of its own.

    Args:
        directory: of an Orbax `CheckpointManager`, with an item "state".
        mesh: any mesh.
        specs: a `PartitionSpec` for each array of the state.

    Returns:
        The state: `jax.Array`s on `mesh`.

    Raises:
        FileNotFoundError: no checkpoint (names the directory).
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


# %% helpers="restore_elsewhere"
from unittest import mock


def grid(mesh_shape, names):  # of the first devices
    devices = jax.devices()[: int(np.prod(mesh_shape))]
    types = (AxisType.Auto,) * len(names)
    return jax.make_mesh(mesh_shape, names, axis_types=types, devices=devices)


def saved(tree, num_devices):  # two checkpoints, split by rows; returns their directory
    by_rows = NamedSharding(make_mesh(num_devices), P("data"))
    with open_manager(directory := tempfile.mkdtemp()) as manager:
        for step, values in ((3, jax.tree.map(np.zeros_like, tree)), (7, tree)):
            state = jax.device_put(values, by_rows)
            manager.save(step, args=Composite(state=StandardSave(state)))
    return directory


def moved(tree, num_devices, mesh_shape, names, specs):  # for the check
    specs = jax.tree.map(lambda s: P(*s), specs, is_leaf=lambda s: isinstance(s, tuple))
    return restore_elsewhere(saved(tree, num_devices), grid(mesh_shape, names), specs)


def restored_from_nothing():
    return restore_elsewhere(f"{tempfile.mkdtemp()}/nothing-here", make_mesh(8), {})


def moved_later(tree, mesh_shape, names, specs):  # arrays that Orbax laid out otherwise
    restore, restored = ocp.PyTreeCheckpointHandler.restore, []

    def watched(*arguments, **options):
        restored.append(restore(*arguments, **options))
        return restored[-1]

    with mock.patch.object(ocp.PyTreeCheckpointHandler, "restore", watched):
        state = moved(tree, 8, mesh_shape, names, specs)
    every = [(name, found[name]) for found in restored for name in state]
    return [name for name, array in every if not same_layout(array, state[name])]


# %% check="restore_elsewhere" points=3
w = np.arange(64, dtype=np.float32).reshape(16, 4)
tree = {"w": w, "b": np.arange(8, dtype=np.int32)}
for shape, names, specs in (
    ((4,), ("data",), {"w": ("data",), "b": ()}),
    ((2,), ("data",), {"w": (None, "data"), "b": ("data",)}),
    ((4, 2), ("i", "j"), {"w": ("j", "i"), "b": (("i", "j"),)}),
):
    seen = observe(moved, tree, 8, shape, names, specs)
    older = {"this is an older checkpoint": jax.tree.map(np.zeros_like, tree)}
    expect_close(seen, tree, mistakes=older)
    where = {name: (f'["{name}"]', spec) for name, spec in specs.items()}
    expect_layout(seen, where, shape, names)
    seen = observe(moved_later, tree, shape, names, specs)
    headline = f"Orbax restored {' and '.join(seen.value or ())} in another layout."
    likely = "give the layout to Orbax, as a target with shardings"
    expect(seen, not seen.value, headline, likely=likely)
expect_error(observe(restored_from_nothing), "FileNotFoundError", ["nothing-here"])
seen = observe(moved, tree, 8, (4,), ("data",), {"w": ("rows",), "b": ()})
expect_error(seen, "ValueError", ["rows"])
### BEGIN HIDDEN TESTS
tree = {"a": {"deep": np.float32(np.random.default_rng(0).normal(size=(4, 6, 2)))}}
seen = observe(moved, tree, 2, (2, 3), ("x", "y"), {"a": {"deep": ("x", "y")}})
expect_close(seen, tree)
found = {piece.index for piece in seen.layout.get('["a"]["deep"]', ())}
expect(seen, len(found) == 6, "The array lies in another number of pieces.")
### END HIDDEN TESTS

# %%
tree = {"w": np.arange(64, dtype=np.float32).reshape(16, 4)}
seen = observe(moved, tree, 8, (2, 2), ("data", "model"), {"w": ("model", "data")})
if seen.error:
    print(
        "restore_elsewhere does not run yet. Solve exercise 5.5, then run this again."
    )
else:
    draw_array(jax.device_put(tree["w"], by_rows), 'saved, 8 devices, P("data"):')
    there = NamedSharding(grid((2, 2), ("data", "model")), P("model", "data"))
    draw_array(
        jax.device_put(seen.value["w"], there), 'restored, 2 x 2, P("model", "data"):'
    )

# %% [markdown]
# ## 6. Several processes
#
# A cluster runs *your script once per machine*, or per GPU. `jax.distributed.initialize`,
# called first, joins them: `jax.devices()` lists the devices of all, a mesh spans them.
# Three rules:
#
# - every process makes the same calls in the same order (Orbax's `save`, too): a collective
#   that one skips makes the others wait for ever;
# - each serves its own devices (`place`);
# - your own files are written by process 0, into a folder that all see.
#
# Below is section 1's pipeline as one function, with a copy of the weights every 20
# steps. `write_script` puts it into a file, with all that it uses.


# %%
from coursekit.script import write_script


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
# **Predict, then run.** One process with eight devices; two with four each; two again, and
# at step 50 one is killed. What does the other do? And the same script once more?

# %%
from coursekit.processes import run_script

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
# The survivor could only wait for its partner: it is ended too, and both start again from
# the last copy. A cluster's scheduler does what `run_script` does here.
#
# The losses agree but for rounding, since two processes add up in another order than
# one. *Bit for bit* holds for the same processes and devices; on GPUs add `XLA_FLAGS`'
# `--xla_gpu_deterministic_ops=true`.

# %% [markdown]
# ## 7. The whole
#
# These are given: settings and their check, the task (digits, or section 1's data), a state
# made in its layout, and a log: `open_log(config, step)` keeps `step` lines of it and
# returns `write(step, metrics)`.


# %%
def config_of(directory, /, **changes):  # the settings of a run
    config = {"directory": str(directory), "task": "digits", "num_devices": 8}
    config |= {"num_steps": 200, "batch_size": 64, "num_microbatches": 2, "hidden": 32}
    config |= {"save_every": 50, "keep": 2, "seed": 0, "peak_lr": 0.01, "cut_at": None}
    return config | changes


def settings_of(config):  # what a resumed run must share with the one before
    free = ("directory", "num_devices", "num_steps", "save_every", "keep", "cut_at")
    return {name: value for name, value in config.items() if name not in free}


def check_config(config):
    unknown = sorted(set(config) - set(config_of("")))
    if unknown or config["task"] not in ("digits", "regression"):
        raise ValueError(f"unknown: {unknown or config['task']}")
    pieces = config["num_devices"] * config["num_microbatches"]
    if config["batch_size"] % pieces:
        raise ValueError(f"a batch of {config['batch_size']} rows in {pieces} pieces")
    if not Path(config["directory"]).is_dir():
        raise FileNotFoundError(f"no directory {config['directory']}")


# %%
def square_loss(w, x, y):
    return ((x @ w - y) ** 2).mean()


def make_task(config):  # (data, loss function, function that makes the parameters)
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
import json


def open_log(config, step):  # returns write(step, metrics), which adds a line
    path = Path(config["directory"], "metrics.jsonl")
    lines = path.read_text().splitlines(keepends=True)[:step] if path.exists() else []
    is_first = jax.process_index() == 0
    if is_first:
        (part := path.with_suffix(".part")).write_text("".join(lines))
        part.replace(path)

    def write(step, metrics):
        line = {"step": step} | {name: float(value) for name, value in metrics.items()}
        if is_first:
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
        if step == config["cut_at"] and (not is_first or jax.process_count() == 1):
            os.kill(os.getpid(), 9)  # the power cut of the check

    return write


# %% [markdown]
# ### Exercise 5.6: fit
#
# `fit(config)` trains to `config["num_steps"]` and returns the parameters, on the mesh.
# It uses your `batches`, `make_train_step`, `save_state` and `restore_state`.
#
# - Steps count from 1. Checkpoints lie in `directory/checkpoints`: every `save_every`
#   steps and after the last; `keep` of them stay. Their facts are `settings_of(config)`.
# - Where there is a checkpoint, the run goes on from it. Killed at any moment and
#   started again it ends with the same bits; `metrics.jsonl` has each step once.
# - For bad settings it raises, before anything is written: what `check_config` and
#   `make_mesh` raise.


# %% exercise="fit" minutes=22 difficulty=3
def fit(config):
    """Trains to the last step, from the newest checkpoint if there is one.

    Args:
        config: as `config_of` makes it.

    Returns:
        The parameters, whole on every device.

    Raises:
        ValueError, FileNotFoundError: before any step, for bad settings.
    """
    ### BEGIN SOLUTION
    check_config(config)
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, facts)
        write, by_rows = open_log(config, start), NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                save_state(manager, step, state, facts)
    return state["params"]
    ### END SOLUTION


# %% [markdown] hints="fit"
# - Order: check, mesh, task, first state, manager, restore, step, stream, log, loop.
# - `restore_state` covers the first start as well: it returns step 0 and the fresh state.
# - Leaving `with open_manager(...) as manager:` waits until the last save is complete.


# %% helpers="fit"
def run(directory, **changes):
    """Trains by `fit`; settings as `config_of` has them."""
    fit(config_of(directory, **changes))


def result_of(folder, changes):  # for the checks; a run that is done only restores
    params = fit(config_of(folder, **changes))
    params = jax.tree.map(lambda a: np.asarray(a.addressable_data(0)), params)
    lines = Path(folder, "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    steps, losses = (np.array([row[name] for row in rows]) for name in ("step", "loss"))
    names = [path.name for path in Path(folder, "checkpoints").iterdir()]
    saved = sorted(int(name) for name in names if name.isdigit())
    kept = sum("before" in row for row in rows)  # lines of the run before
    found = {"params": params, "logged": steps, "losses": losses, "saved": f"{saved}"}
    return found | {"kept": kept, "ended": "finished"}


def fit_here(changes):
    return result_of(tempfile.mkdtemp(), changes)


def fit_elsewhere(changes, num_processes, later):  # in processes, then once more here
    folder = tempfile.mkdtemp()
    write_script(script := Path(folder, "pipeline.py"), run)
    settings = {"directory": folder, **changes}
    ended = run_script(script, settings, num_processes, timeout_s=40)
    if ended == "finished" or "SIGKILL" in ended:
        log = Path(folder, "metrics.jsonl")
        log.write_text(log.read_text().replace("}", ', "before": true}'))
        return result_of(folder, changes | later) | {"ended": ended}
    return {"ended": ended}


def goes_on(changes, later):  # in the same directory
    folder = tempfile.mkdtemp()
    fit(config_of(folder, **changes))
    fit(config_of(folder, **changes | later))


def expect_run(seen, ended, wanted, kept, likely=""):  # kept: steps of the run before
    expect_result(seen)
    waits = "one process waits for another: all make the same calls (section 6)"
    rows = {"seen": seen.value["ended"], "expected": ended}
    rows["likely"] = waits if "did not finish" in seen.value["ended"] else ""
    headline = "The script ended in another way."
    expect(seen, seen.value["ended"] == ended, headline, **rows)
    headline = f"The second run kept {seen.value['kept']} lines of the log."
    rows = {"expected": f"{' or '.join(map(str, kept))}: steps of the checkpoint"}
    rows["likely"] = "restore_state gives the step to go on from, and for open_log"
    expect(seen, seen.value["kept"] in kept, headline, **rows)
    wanted = wanted | {"ended": ended, "kept": seen.value["kept"]}
    expect_close(seen, wanted, rtol=1e-3, atol=2e-3, likely=likely)


def refused(changes):  # how fit refuses, and what it has written by then
    folder = tempfile.mkdtemp()
    try:
        fit(config_of(folder, **changes))
    except Exception as error:
        written = sorted(path.name for path in Path(folder).iterdir())
        return type(error).__name__, str(error), written
    return "no error", "", []


def expect_refusal(seen, kind, says):
    fits = seen.error is None and seen.value[0] == kind and says in seen.value[1]
    rows = {"seen": f"{seen.value}", "expected": f"{kind} naming {says}"}
    expect(seen, fits, "Bad settings are not refused as asked.", **rows)
    rows = {"seen": f"{seen.value[2]}", "expected": "an empty directory"}
    expect(seen, not seen.value[2], "Something was written before the refusal.", **rows)


def reference_fit(changes):  # one device, whole batches, no checkpoint
    config = config_of("", **changes)
    (x, y), loss_fn, init = make_task(config)
    optimizer, size, losses = make_optimizer(config), config["batch_size"], []
    order = (epoch_order(config["seed"], epoch, len(x)) for epoch in itertools.count())
    line, params = itertools.chain.from_iterable(order), jax.jit(init)()
    state = {"params": params, "opt_state": optimizer.init(params)}

    @jax.jit
    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(state["params"], x, y)
        return updated(optimizer, state, grads), loss

    for _ in range(config["num_steps"]):
        rows = list(itertools.islice(line, size))
        state, loss = step(state, x[rows], y[rows])
        losses.append(float(loss))
    params, steps = jax.tree.map(np.asarray, state["params"]), range(1, len(losses) + 1)
    return {"params": params, "losses": np.array(losses), "logged": np.array(steps)}


# %% check="fit" points=6
changes = {"num_steps": 40, "save_every": 15, "keep": 3, "hidden": 16}
wanted = reference_fit(changes) | {"saved": "[15, 30, 40]"}
straight = observe(fit_here, changes)
expect_run(straight, "finished", wanted, [0])
for bad, kind, says in (
    ({"batch_size": 72}, "ValueError", "72"),
    ({"directory": "/tmp/not/here"}, "FileNotFoundError", "/tmp/not/here"),
    ({"num_devices": 16}, "ValueError", "16"),
):
    expect_refusal(observe(refused, bad), kind, says)
killed, over = "The process was killed by SIGKILL.", "state, stream or log start over"
seen = observe(fit_elsewhere, changes | {"cut_at": 37}, 1, {"cut_at": None})
expect_run(seen, killed, wanted, [15, 30], over)  # 30 may not be complete when it dies
headline = "Killed at step 37 and started again, it ends with other bits."
bits = same(seen.value["params"], straight.value["params"])
expect(seen, bits, headline, likely=over)
changes = {"task": "regression", "num_steps": 20, "save_every": 8, "peak_lr": 0.1}
expect_error(observe(goes_on, changes, {"seed": 1}), "ValueError", ["seed"])
wanted = reference_fit(changes) | {"saved": "[16, 20]"}
expect_run(observe(fit_elsewhere, changes, 2, {}), "finished", wanted, [20])
### BEGIN HIDDEN TESTS
changes = {"task": "regression", "num_steps": 30, "save_every": 7, "seed": 5}
changes |= {"batch_size": 48, "num_microbatches": 3, "keep": 1}
later = {"cut_at": None, "num_devices": 4}
seen = observe(fit_elsewhere, changes | {"cut_at": 15}, 1, later)
expect_run(seen, killed, reference_fit(changes) | {"saved": "[30]"}, [7, 14])
### END HIDDEN TESTS

# %% [markdown]
# `write_script("pipeline.py", run)` makes your own program of it, for one GPU or, where
# `num_devices` counts those of all processes, for a cluster:
#
# ```
# python pipeline.py '{"directory": "/tmp/run", "num_devices": 1}'
# srun python pipeline.py '{"directory": "/shared/run", "num_devices": 8}' cluster
# ```
#
# The grown-up version is `solutions/references/full_pipeline.py`.
#
# ## 8. What takes the time?
#
# `jax.profiler.trace(directory)` records what each device did; TensorBoard or Perfetto
# show it. Below, three data-parallel steps on 512 x 512 weights, drawn from such a trace.
#
# **Look for** gaps (waiting for data or Python), long collectives, and the slowest device.

# %%
square = place(np.ones((512, 512), np.float32), NamedSharding(make_mesh(8), P()))
images = place(np.ones((512, 512), np.float32), by_rows)


@jax.jit
def big_step(w, x):
    return w - 0.1 * jax.grad(lambda w: ((jnp.tanh(x @ w) @ w) ** 2).mean())(w)


big_step(square, images).block_until_ready()  # compiled before the trace
folder = tempfile.mkdtemp()
with jax.profiler.trace(folder):
    for step in range(3):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            square = big_step(square, images).block_until_ready()
draw_profile(folder, "Three steps on eight devices")

# %% [markdown]
# Simulated devices share your cores, so a bar also holds time without one. Much orange
# asks for more work per step, or fewer bytes.
#
# ## 9. Pipeline parallelism
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
# `pipeline_forward(stage_params, microbatches)` returns what S stages in turn (`stage`, each
# with its parameters) make of M microbatches. Stage s is on device s.
#
# - Use `shard_map` on a mesh with one axis; each device holds its own stage alone.
# - M + S - 1 ticks. In each a device computes once and sends one microbatch to its
#   neighbour by `ppermute`.


# %% exercise="pipeline_forward" minutes=18 difficulty=3
def pipeline_forward(stage_params, microbatches):
    """Computes a pipeline's results by the GPipe schedule.

    Args:
        stage_params: {"w": f32 (S, W, W), "b": f32 (S, W)}.
        microbatches: f32 (M, B, W).

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
    return spread(stage_params, microbatches)[-1]
    ### END SOLUTION


# %% [markdown] hints="pipeline_forward"
# - `in_specs=(P("data"), P())` gives each device its stage, with a leading axis of 1, and
#   all microbatches. With `check_vma=False`, as in 5.2.
# - `scan` over ticks; what is carried is the microbatch that came from the left. Device 0
#   takes microbatch t instead (`jnp.where`).
# - The last device's results of the last M ticks are the answer: return every device's
#   with `out_specs=P("data")` and take the last.


# %% helpers="pipeline_forward"
def pipeline_case(num_stages, count, width=5, rows=2):
    rng = np.random.default_rng(count)
    w = rng.normal(size=(num_stages, width, width)) / 2
    params = {"w": np.float32(w), "b": np.float32(rng.normal(size=(num_stages, width)))}
    return params, np.float32(rng.normal(size=(count, rows, width)))


def reference_stages(params, x):  # float64, one stage after the other
    x = np.float64(x)
    for w, b in zip(*params.values(), strict=True):
        x = np.tanh(x @ w + b)
    return x


# %% check="pipeline_forward" points=3
for num_stages, count in ((4, 6), (8, 3)):
    params, x = pipeline_case(num_stages, count)
    seen = observe(pipeline_forward, params, x, traced=True)
    likely = "device 0 alone takes them; the answer: the last device's last M results"
    wanted = reference_stages(params, x)
    expect_close(seen, wanted, rtol=1e-4, atol=1e-5, likely=likely)
    expect_collectives(seen, never=("all-gather",), likely="one stage per device")
    sends = [one for one in seen.collectives if one.kind == "collective-permute"]
    ticks, most = sum(one.times or 0 for one in sends), num_stages + count - 1
    headline = f"A device sends {ticks} times in {most} ticks (M + S - 1)."
    expect(seen, most - 1 <= ticks <= most, headline)
    sizes = {int(np.prod(one.shape)) for one in sends}
    headline = f"Microbatches have {x[0].size} elements; a send has {sizes}."
    expect(seen, sizes == {x[0].size}, headline)
seen = observe(pipeline_forward, params, x, compiled=True)
likely = "in_specs gives each device its own stage: P with the mesh's axis"
expect_arrays(seen, never=params["w"].shape, likely=likely)
### BEGIN HIDDEN TESTS
params, x = pipeline_case(2, 1, width=3, rows=4)
seen = observe(pipeline_forward, params, x, traced=True)
expect_close(seen, reference_stages(params, x), rtol=1e-4, atol=1e-5)
### END HIDDEN TESTS

# %% [markdown]
# ## 10. The production checklist
#
# Each line is ticked by a check of yours.

# %%
from coursekit.check import checklist

checklist(
    {
        "every row once per epoch, resumable at any step": "batches",
        "the next batch on its way while this one trains": "batches",
        "one compile, one sync per step, memory reused": "make_train_step",
        "bfloat16 products, float32 state": "mixed_precision_loss",
        "killed and resumed, bit for bit; damage survived": "restore_state",
        "another number of devices, another layout": "restore_elsewhere",
        "the whole, in one process and in two": "fit",
        "a pipeline over devices": "pipeline_forward",
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
# **1. A run is resumed with parameters and step, but with a fresh optimizer state. What do
# you see?**
#
# <details><summary>An error</summary>
#
# A fresh state has the right shapes.
#
# </details>
# <details><summary>A loss curve with a bump or without one, and other parameters</summary>
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
# <details><summary>wait in the next collective, until something ends them</summary>
#
# Right: JAX's heartbeat after 100 s, or sooner a launcher, which starts all again.
#
# </details>
# <details><summary>raise an exception that you can catch</summary>
#
# Most wait or are aborted.
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
#
# You have finished the course.

# %% scorecard=true
