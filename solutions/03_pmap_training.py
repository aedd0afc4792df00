# %% [markdown]
# # Lesson 3. pmap training
#
# COLAB_BADGE
#
# You have a model that trains well on one GPU, and today you get seven more. How do you
# use all eight, and still train the same model?
#
# The usual answer is **data parallelism**. Every device keeps a copy of the model and
# takes an equal share of each batch; the devices average their gradients, and all of
# them take the same step. PyTorch calls this DDP, `DistributedDataParallel`, and it is
# what nearly everybody does first with a second GPU. In JAX it takes a few lines, and
# mistakes in these lines make no noise: an average that is missing, or one too many,
# raises no error and may even show a *lower* loss.
#
# In the first part you write the training step of data parallelism and see it train a
# classifier of handwritten digits on eight devices, with the very loss curve of one
# device. Then you port it to `jax.shard_map`, where one rule changes. The second part
# adds what real training needs, and ends with a convolutional network whose batch
# statistics and dropout span eight devices.
#
# **After this lesson you can**
#
# - write a data-parallel training step, and show that it is right;
# - train with a larger batch than fits into memory (gradient accumulation);
# - port a step from `pmap` to `shard_map` without its silent eightfold gradient;
# - pad, clip, normalise and drop units so that eight devices agree with one (second
#   part).
#
# **You need** lessons 1 and 2. **Time**: about 90 minutes, with a pause before section
# 4; then a second part of 100 minutes.

# %% setup=true

# %%
import functools
from importlib.metadata import distribution
from typing import Any, NamedTuple

import optax
from coursekit.references import reference_perceptron, reference_sgd
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

num_devices = jax.device_count()  # 8, unless you run on real devices

# %% [markdown]
# ## 1. Data parallelism in five verbs
#
# 1. **Replicate** the parameters: every device gets a copy, a *replica*.
# 2. **Shard** the batch: every device gets an equal share of its rows.
# 3. **Step**: every device computes the gradient of the loss on its own rows.
# 4. **Sync**: an all-reduce, `pmean`, averages the gradients over the devices, so that
#    all replicas make the same update.
# 5. **Unreplicate**: at the end, keep one replica. They are all equal.
#
# Why does this train the same model as one device? The mean over a batch is the mean of
# the means over its equal parts, and what is true of the loss is true of its gradient.
# So the `pmean` of eight gradients *is* the gradient of the mean loss over the whole
# batch.
#
# The smallest example is a line, `y = 2x - 1` with noise, fitted to 128 points. Find
# the five verbs in it.


# %%
class Line(NamedTuple):
    weight: Any
    bias: Any


def line_step(line, x, y):  # on one device: f32[] each, x and y: f32[16]
    grads = jax.grad(lambda p: jnp.mean((p.weight * x + p.bias - y) ** 2))(line)
    grads = jax.lax.pmean(grads, "devices")  # sync
    return jax.tree.map(lambda p, g: p - 0.01 * g, line, grads)


rng = np.random.default_rng(0)
line_x = np.float32(rng.normal(size=(num_devices, 16)))  # shard
line_y = np.float32(2 * line_x - 1 + 0.5 * rng.normal(size=line_x.shape))
# replicate: stack the copies; pmap sends row d to device d
zeros = Line(*np.zeros((2, num_devices), np.float32))
step = jax.pmap(line_step, axis_name="devices")
line = step(zeros, line_x, line_y)
shown = {"weight": zeros.weight, "x": line_x}  # and likewise bias and y
draw_pmap("line_step", shown, {"weight": line.weight}, sync="pmean of the\ngradients")

# %% [markdown]
# **Predict, then run.** After 1000 steps, how far apart are the eight replicas? And how
# far is replica 0 from the least-squares line that NumPy fits to all 128 points?

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
# The replicas do not differ at all, not even by rounding. `pmean` gives every device
# the same bits, and equal updates of equal bits stay equal. A difference, however
# small, is therefore a sign that something was not averaged.
#
# Two things hold for **every** function that you write in this lesson:
#
# - [arguments stay] It does not modify, delete or donate its arguments. (To donate an
#   argument is to give its memory to the result. A real training step donates the old
#   parameters, as yours will in lesson 4; here the notebook uses them again.)
# - [nothing is remembered] Its result depends on its arguments alone, not on earlier
#   calls.
#
# Each exercise's table lists them with their share of the points.
#
# How can a check know what a device computes or sends? It *traces* your function, as
# `jit` does, and reads the program. Code that runs on devices must therefore be
# traceable: it cannot use `float()` or NumPy on its arrays.

# %% [markdown]
# ## 2. Step and sync
#
# Now a model with a hidden layer. It serves two kinds of data: rows of ten generated
# numbers, from which it learns a function, and the 1,797 handwritten digits of 8 x 8
# pixels that come with scikit-learn. The dtype of `y` tells which: floats are targets,
# integers are classes.

# %%


def init_mlp(seed, hidden=32, inputs=10, outputs=1):
    rng = np.random.default_rng(seed)
    w1, w2 = rng.normal(size=(inputs, hidden)), rng.normal(size=(hidden, outputs))
    params = {"w1": w1 / np.sqrt(inputs), "w2": w2 / np.sqrt(hidden)}
    params |= {"b1": np.zeros(hidden), "b2": np.zeros(outputs)}
    return jax.tree.map(np.float32, params)


def mlp_data(seed, *shape):  # x: (*shape, 10), y: shape
    rng = np.random.default_rng(seed)
    x, noise = rng.normal(size=(*shape, 10)), rng.normal(size=shape)
    y = np.sin(x[..., 0]) + 0.5 * x[..., 1] * x[..., 2] + 0.1 * noise
    return np.float32(x), np.float32(y)


def load_images():  # shuffled: f32[1797, 8, 8, 1] from 0 to 1, i32[1797]
    digits = "sklearn/datasets/data/digits.csv.gz"  # its import would take a second
    rows = np.loadtxt(distribution("scikit-learn").locate_file(digits), delimiter=",")
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    return np.float32(rows[:, :-1] / 16).reshape(-1, 8, 8, 1), np.int32(rows[:, -1])


# %%
def mlp_scores(params, x):  # f32[B, F] -> f32[B, C]
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def mlp(params, x):  # f32[B, 10] -> f32[B], the only output
    return mlp_scores(params, x)[:, 0]


def cross_entropy(scores, labels):  # f32[B, C], i32[B] -> f32[]
    chosen = jax.nn.one_hot(labels, scores.shape[1])
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(scores) * chosen, axis=-1))


def mlp_loss(params, x, y):  # mean over this device's rows: f32[]
    if jnp.issubdtype(y.dtype, jnp.integer):
        return cross_entropy(mlp_scores(params, x), y)
    return jnp.mean((mlp(params, x) - y) ** 2)


def copies(tree, num_devices):  # replicate: a NumPy stack of equal rows
    return jax.tree.map(lambda leaf: np.stack([leaf] * num_devices), tree)


# %% [markdown]
# What do we compare with? A single device that takes the whole batch. Here that is
# `reference_sgd`, written in NumPy with 64-bit floats, so that its rounding errors do
# not matter.
#
# **Predict, then run.** Three runs of 50 steps on eight devices: with the gradients
# averaged, added up, and left alone. Which log will look best?


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
# **Common mistake: trusting the log.** Both wrong runs log *lower* losses than the
# right one. Without a sync, each replica fits its own eighth of the data, and the log
# averages eight flattering numbers. With `psum` the gradient is eight times too large,
# which is a learning rate that you did not choose.
#
# Look at the picture, too: the replicas of `psum` agree perfectly. Agreement is not
# correctness. Only `pmean` follows the single device. That is why the checks of this
# lesson never ask whether the loss falls: they compare one step with one device.
#
# One rule is enough for now: **inside `pmap`, a gradient is the device's own until you
# average it**, and it is the gradients that you average. Section 4 will change this
# rule, and say so.

# %% [markdown]
# ### Exercise 3.1: train_step
#
# This is the step at the heart of DDP. Its price is one all-reduce of all gradients in
# every step. A model of 7 billion parameters has 14 GB of gradients in bfloat16, and in
# a ring of eight devices each sends 2 · 7/8 of that, 24.5 GB (lesson 2's table). Over
# the NVLink of an [H100](https://www.nvidia.com/en-us/data-center/h100/), 450 GB/s in
# each direction, this takes 54 ms; over a network card of 400 Gbit/s, 50 GB/s, it takes
# 490 ms. So between machines the sync may cost more than the computation.
#
# Write `device_step`, which takes one step of SGD, `p - lr * gradient`, on one device,
# and `train_step`, which maps it over `D` devices, by `pmap` or `shard_map`. `params`
# are stacked: row `d` is the replica of device `d`. `y` may hold integer labels, too:
# `mlp_loss` takes both.
#
# ```python
# params = copies(init_mlp(0), 8)                # w1: f32[8, 10, 32], and so on
# x, y = mlp_data(1, 8, 64)                      # f32[8, 64, 10], f32[8, 64]
# params, loss = train_step(params, x, y, 0.01)  # shapes as before; loss: f32[8]
# loss                                           # the same number, in eight copies
# ```
#
# - [same numbers] The new parameters match a single device that sees the whole batch.
# - [own rows only] A device computes with its own share of the batch only.
# - [loss before the step] The loss is the mean over the whole batch, before the update.
# - [replicas agree] Row `d` of the result is on device `d`, and equal replicas stay
#   equal, bit for bit.
# - [one all-reduce] Each gradient, and the loss, is all-reduced once: all in one call,
#   or one call for each. Nothing else is sent. (In plain SGD, averages of the new
#   parameters come to the same as averages of the gradients.)
# - [no recompilation] A new batch of the same shape, or another learning rate, must not
#   recompile.


# %% exercise="train_step" minutes=20 difficulty=2
def device_step(params, x, y, lr):
    """Takes the step on one device, inside the axis "devices".

    `params` is this device's replica, `x` (B, F) and `y` (B,) are its own rows. Returns
    the new replica and the loss over the rows of all devices, f32 ().
    """
    ### BEGIN SOLUTION
    # One pmean takes the whole tree, so the loss travels with the gradients. Averaging
    # the updated parameters instead would also work for SGD, but not for an optimizer
    # with a state, such as Adam. DDP sends gradients, too: in buckets of 25 MB, while
    # earlier layers are still being differentiated.
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
    ### END SOLUTION


def train_step(params, x, y, lr):
    """Takes one synchronised SGD step on D devices.

    Args:
        params: a stack of D replicas, f32 (D, ...), of an `init_mlp` of any widths.
        x: f32 (D, B, F), the rows of each device.
        y: (D, B), as `mlp_loss` takes it.
        lr: learning rate, a number.

    Returns:
        (params, loss): the updated replicas, and the loss, f32 (D,).
    """
    ### BEGIN SOLUTION
    # device_step is defined outside, once, so pmap finds the compiled program again;
    # in_axes=None passes lr to all devices as a number that the program takes as input.
    step = jax.pmap(device_step, axis_name="devices", in_axes=(0, 0, 0, None))
    return step(params, x, y, lr)
    ### END SOLUTION


# %% [markdown] hints="train_step"
# - `jax.value_and_grad(mlp_loss)(params, x, y)` gives the loss and the gradients of one
#   device's rows; `jax.lax.pmean` takes a whole tree.
# - Average first, then update. The axis name in `pmean` and in `pmap` must agree.
# - `in_axes=(0, 0, 0, None)` passes `lr` to all devices. A function that is defined
#   *inside* `train_step` is a new one in each call, so `pmap` would compile it again.

# %% check="train_step"

# %% [markdown] built="train_step"
# Data-parallel training: these few lines are what PyTorch's `DistributedDataParallel`
# does, and what `jax.jit` will do for you in lesson 4 once the batch is sharded.
# PyTorch adds overlap: it sends the gradients of the last layers while those of the
# first are still being computed ([Li et al., 2020](https://arxiv.org/abs/2006.15704));
# on GPUs and TPUs, XLA can schedule JAX's all-reduces in the same way. For SGD one
# could also update with the local gradients and average the *parameters*: the same
# numbers, as long as the optimizer is linear in the gradient, which Adam is not. Try
# it: replace `pmean` by `psum` and look at the card. The loss curve would have told you
# nothing.

# %% [markdown]
# ## 3. A large batch in small pieces
#
# Eight devices with 64 rows each take steps on 512 rows. This product is the
# **effective batch size**. If you add devices and keep the rows of each, you change the
# training: a larger batch means fewer steps in an epoch. A rule of thumb for SGD is the
# **linear scaling rule**: with `k` times the batch, take `k` times the learning rate,
# after a short warm-up. With it, [Goyal et al.
# (2017)](https://arxiv.org/abs/1706.02677) trained ResNet-50 on ImageNet in one hour:
# 256 GPUs, 8,192 images a step, no loss of accuracy.
#
# Conversely, a recipe may ask for a batch that does not fit into memory. The
# *activations*, which the forward pass keeps for the gradient, grow with the rows of a
# device. **Gradient accumulation** takes these rows in *microbatches*, one after the
# other: it adds up their gradients, and syncs and updates once at the end. The
# effective batch size is then devices x microbatches x rows of a microbatch.
#
# Where should the sync be? **Predict, then run.** Four microbatches, each with a
# gradient of 100 numbers: how many bytes does a device send if it syncs after each, and
# how many if it syncs once?


# %%
def add_rounds(rows, sync_in_loop):  # rows: f32[4, 100], a gradient of each microbatch
    def add(total, row):
        return total + (jax.lax.pmean(row, "devices") if sync_in_loop else row), None

    total, _ = jax.lax.scan(add, jnp.zeros(100), rows)  # a loop in the program
    return total if sync_in_loop else jax.lax.pmean(total, "devices")


mapped = jax.pmap(add_rounds, "devices", static_broadcasted_argnums=1)
rows = np.ones((num_devices, 4, 100), np.float32)
for sync_in_loop in (True, False):
    for sent in collectives(mapped, rows, sync_in_loop):
        print(f"{sent.bytes_moved:,.0f} bytes from each device: {sent}")


# From here on, the update is given:
def sgd(params, grads, lr):
    return jax.tree.map(lambda p, g: p - lr * g, params, grads)


# %% [markdown]
# ### Exercise 3.2: accumulated_step
#
# Llama 2 was trained with 4 million tokens in each step ([Touvron et al.,
# 2023](https://arxiv.org/abs/2307.09288)): 1,024 sequences of 4,096 tokens. On 64 GPUs
# each takes 16 of these sequences, and if its memory holds two at a time, it needs
# eight microbatches. With the sync after the loop, the 28 GB of gradients (7 billion,
# in float32) cross the network once in a step, not eight times.
#
# Write `accumulated_step`, which runs on each device inside the axis `axis_name`. It
# averages loss and gradients over all microbatches of all devices; the update is
# given. The rule is that of exercise 3.1: gradients are this device's own until you
# average them.
#
# ```python
# run = functools.partial(accumulated_step, lr=0.01, axis_name="devices")
# x, y = mlp_data(1, 8, 4, 16)              # 8 devices, 4 microbatches of 16 rows
# params, loss = jax.pmap(run, "devices")(copies(init_mlp(0), 8), x, y)
# ```
#
# - [same numbers] The new parameters are those of **one** step on all rows of all
#   devices.
# - [one microbatch at a time] The hidden layer of only one microbatch is in memory at a
#   time: each is done with before the next one begins.
# - [one all-reduce] All communication happens after the loop: one all-reduce of
#   gradients and loss, in as many calls as you like.
# - [loss before the step] The loss is the mean over all these rows, before the update.
# - [replicas agree] All devices return the same, bit for bit.


# %% exercise="accumulated_step" minutes=15 difficulty=2
def accumulated_step(params, x, y, lr, axis_name):
    """Takes one SGD step on M microbatches per device, with one sync.

    Args:
        params: this device's replica, of an `init_mlp` of any widths.
        x: f32 (M, B, F), this device's microbatches.
        y: (M, B).
        lr: learning rate.
        axis_name: the axis of devices.

    Returns:
        (params, loss): the new replica, and the mean loss before the step, f32 ().
    """

    ### BEGIN SOLUTION
    # A scan keeps the compiled program as small as that of one microbatch, and nothing
    # of a round is alive in the next but the sums. Equal microbatches: the mean of their
    # means is the mean. Optax's MultiSteps counts calls instead and updates at every
    # M-th.
    def add(total, batch):
        found = jax.value_and_grad(mlp_loss)(params, *batch)
        return jax.tree.map(jnp.add, total, found), None

    zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
    total, _ = jax.lax.scan(add, zeros, (x, y))
    mean = jax.tree.map(lambda leaf: leaf / len(x), total)
    loss, grads = jax.lax.pmean(mean, axis_name)
    ### END SOLUTION
    return sgd(params, grads, lr), loss


# %% [markdown] hints="accumulated_step"
# - `jax.lax.scan(add, start, (x, y))` calls `add(total, (x[m], y[m]))` for each `m`;
#   `add` returns `(new_total, None)`. A Python loop is right, too, but the program
#   grows with `M`.
# - Start from zeros: `jnp.zeros(())` for the loss, and
#   `jax.tree.map(jnp.zeros_like, params)` for the gradients.
# - After the scan: divide both by `M`, then take one `pmean` of both.

# %% check="accumulated_step"

# %% [markdown] built="accumulated_step"
# What DeepSpeed and Hugging Face call `gradient_accumulation_steps`. In PyTorch, DDP
# would sync in every backward pass, and you ask it not to with `no_sync()`; in Optax,
# [MultiSteps](https://optax.readthedocs.io/en/latest/_collections/examples/gradient_accumulation.html)
# wraps an optimizer. Accumulation saves memory, not computation: eight microbatches
# take about as long as eight steps. Next you might accumulate in float32 while the
# gradients are bfloat16 (lesson 5). A caution: the mean of means is right here because
# microbatches are equal. If they hold different numbers of valid rows, it is wrong:
# exercise 3.4.

# %% [markdown]
# ## 4. Porting to shard_map: where the rule changes
#
# **A good place for a pause.** If the kernel has stopped since, run the cells above
# again.
#
# New code uses `jax.shard_map` in place of `pmap`, on a *mesh*: devices in a row, whose
# axis has a name. Nothing is stacked any more. The spec `P()` says *replicated, the
# same on all devices*; `P("devices")` shards the leading axis.
#
# **Predict, then run.** Below, loss and gradients are computed as in exercise 3.1, word
# for word, with `pmean` after the gradient. How large are they, beside those of one
# device?

# %%
mesh = Mesh(jax.devices(), ("devices",))


def ported(params, x, y):  # params: replicated, x: f32[64, 10]
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
# **Common mistake: the eightfold gradient.** The loss is right, every gradient is eight
# times too large, there is no error, and the replicas agree. On one device the factor
# is 1, so the test on your laptop passes; on 256 devices it is 256.
#
# What happened? `pmap` sees eight parameters, one on each device. `shard_map` sees
# *one* replicated `params`, used by eight devices. By the chain rule its gradient is
# the *sum* of what the eight uses contribute, and JAX inserts that sum on the way back.
# `pmean` then averages eight equal sums, which changes nothing.

# %% [markdown]
# ### ⚠ The rule changes here
#
# | where | the gradient of replicated parameters is | so you average |
# |---|---|---|
# | `pmap` (exercises 3.1 and 3.2) | this device's own | the **gradients**, after differentiating |
# | `shard_map` (exercise 3.3) | already **summed** over all devices | the **loss**, inside what you differentiate |
# | `shard_map(..., check_vma=False)` | this device's own, as in `pmap` | the **gradients** |
#
# The new rule is easy to remember: *differentiate what you mean*. You mean the loss
# averaged over all devices, so put `pmean` inside the function that you differentiate,
# and let JAX do the rest. (VMA stands for *varying manual axes*: with `check_vma`, the
# default, JAX keeps track of which values differ between devices.)
#
# Each rule is silently wrong in the other's place: in `pmap`, `pmean` in the loss
# leaves the gradients unsynchronised, as you saw in lesson 2. So whenever you port a
# step, **compare one step's gradient with one device**.

# %% [markdown]
# One more thing about speed: each call of `jax.shard_map(...)` makes a new function,
# and JAX finds compiled programs by their function. So make
# `jax.jit(jax.shard_map(...))` once and keep it. `functools.cache` below keeps one for
# each number of devices. ("What compiles again" in the second part shows this.)

# %% [markdown]
# ### Exercise 3.3: shard_map_step
#
# `pmap` is in maintenance mode and since JAX 0.8 is itself made of `jit` and
# `shard_map`; [JAX's guide](https://docs.jax.dev/en/latest/migrate_pmap.html) says how
# to move, but does not mention the factor. Much code is being ported these days, and
# this is where it goes wrong without a word.
#
# Write `compiled_step(num_devices)`: the step of exercise 3.1 as a function
# `step(params, x, y, lr)` by `jax.jit(jax.shard_map(...))`, on a mesh of the first
# `num_devices` devices. Global arrays go in and come out; `sgd` is given.
#
# ```python
# params, (x, y) = init_mlp(0), mlp_data(1, 512)        # x: f32[512, 10]
# params, loss = shard_map_step(params, x, y, 0.01, 8)  # w1: f32[10, 32], loss: f32[]
# ```
#
# - [same numbers] The new parameters match a single device that sees the whole batch.
# - [own rows only] A device computes with its own share of the rows only.
# - [loss before the step] The loss is the mean over the whole batch, before the update.
# - [replicated result] Every device of the mesh holds the new parameters and the loss.
# - [one all-reduce] Each gradient, and the loss, is all-reduced once: all in one call,
#   or one call for each. Nothing else is sent. (In plain SGD, averages of the new
#   parameters come to the same as averages of the gradients.)
# - [no recompilation] A new batch of the same shape, or another learning rate, must not
#   recompile.


# %% exercise="shard_map_step" minutes=20 difficulty=2
@functools.cache
def compiled_step(num_devices):
    """Returns a compiled step(params, x, y, lr) -> (params, loss) for a mesh."""

    ### BEGIN SOLUTION
    # With pmean in the loss, JAX's own sum on the way back is the sync, and this is right
    # with one device or many. The other sound way makes the parameters varying first,
    # jax.lax.pcast(params, "devices", to="varying"), and then follows pmap's rule.
    # lr goes in as an argument: closed over, each value would compile another program.
    def step(params, x, y, lr):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return sgd(params, grads, lr), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"), P())
    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P()))
    ### END SOLUTION


def shard_map_step(params, x, y, lr, num_devices):
    """Takes one SGD step on global arrays, on a mesh of the first devices.

    Args:
        params: of an `init_mlp` of any widths: NumPy arrays, or replicated on the mesh.
        x: f32 (B, F), B a multiple of num_devices: a NumPy array, or sharded by rows.
        y: (B,), likewise.
        lr: learning rate, a number.
        num_devices: size of the mesh's only axis.

    Returns:
        (params, loss): the new parameters and the loss, f32 (), replicated.
    """
    return compiled_step(num_devices)(params, x, y, lr)


# %% [markdown] hints="shard_map_step"
# - Start from `ported` above: the same specs, and `P()` for `lr`.
# - The mesh is `Mesh(jax.devices()[:num_devices], ("devices",))`. (`jax.make_mesh` now
#   makes Explicit axes, for which `shard_map` refuses NumPy arrays.)
# - Inside `step`, define `loss_of(params)`, which returns
#   `jax.lax.pmean(mlp_loss(params, x, y), "devices")`. Its gradient needs no further
#   sync.

# %% check="shard_map_step"

# %% [markdown] built="shard_map_step"
# A port that is right on any number of devices. The gradient norm in your log,
# clipping, and a learning rate that you tuned on one device all keep their meaning.
# Notice what the rule does to exercise 3.2: with `shard_map`'s default, JAX's sum is a
# part of each gradient, so it runs *inside* the loop over microbatches, once for each.
# Code that accumulates under `shard_map` therefore makes the parameters varying with
# `jax.lax.pcast` first, or sets `check_vma=False`, and averages gradients after the
# loop.

# %% [markdown]
# ## Recap
#
# - Data parallelism averages gradients. With `pmean`, eight devices take the step of
#   one, and replicas agree bit for bit.
# - A missing or summed collective raises no error and may log a lower loss. Compare one
#   step with one device.
# - Accumulate over microbatches on each device, and sync once, after the loop.
# - In `pmap` average the *gradients*; in `shard_map` average the *loss* that you
#   differentiate. Make the compiled function once.

# %% [markdown]
# ## Three questions
#
# **1. Replicas start equal and take `pmean`ed steps. After 10,000 steps, how much do
# they differ?**
#
# <details><summary>By rounding errors</summary>
#
# Every device rounds in the same way, since it adds the same update to the same
# numbers.
#
# </details>
# <details><summary>Not at all</summary>
#
# Right. A difference, however small, means that something was not synchronised.
#
# </details>
# <details><summary>It depends on how the shards differ</summary>
#
# Shards enter only through the gradients, and `pmean` makes these equal.
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
# This is so if the function stays the same.
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
# This hides the factor until clipping or another number of devices shows it.
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
# The first part ends here. The second, about 100 minutes with a pause before section 6,
# adds what real training needs; run the cells above first. Its exercises count like all
# others.
#
# ### ⚠ The rule changes back
#
# The functions of the second part run on each device of a **`pmap`**, inside the axis
# `axis_name`, as in exercises 3.1 and 3.2. So `pmap`'s rule holds: a gradient is this
# device's own, and it is the **gradients** that you average. Only exercise 3.3 follows
# the other rule.

# %% [markdown]
# ## Then and now
#
# Most code that you find on the web is older:
#
# | then | now |
# |---|---|
# | `jax.tree_map` | `jax.tree.map` |
# | `jax.pmap(step, "devices")` | `jax.jit(jax.shard_map(step, ...))`; move `pmean` into the loss |
# | `jax.experimental.shard_map` | `jax.shard_map` |
# | `check_rep=False` | `check_vma=False`: average the gradients, as in `pmap` |
# | `jax.device_put_replicated`, `flax.jax_utils.replicate` | `jax.device_put(tree, NamedSharding(mesh, P()))`: no device axis |
# | `jax.device_put_sharded` | `jax.device_put(x, NamedSharding(mesh, P("devices")))` |
# | `flax.jax_utils.unreplicate` | nothing: there is no device axis to remove |
# | `jax.random.PRNGKey(0)` | `jax.random.key(0)` |
# | `flax.optim`, `jax.experimental.optimizers` | Optax |

# %% [markdown]
# ### What the factor does to training
#
# **Predict, then run.** With the eightfold gradient, SGD of
# [Optax](https://optax.readthedocs.io) takes steps that are eight times too long. And
# AdamW?


# %%
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
# AdamW hides the factor: it divides each gradient by that gradient's recent size, so a
# constant cancels. Clipping by norm, a logged gradient norm or another optimizer brings
# it back. Under SGD the loss falls even *faster*, until a learning rate near the limit
# makes it explode.

# %% [markdown]
# ### What compiles again
#
# JAX finds a compiled program by its function, and `jax.shard_map` returns a new
# function each time you call it. Which of these compile in their second and third
# calls?


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
# Without `jit`, `shard_map` compiles in every call, even if you keep the function. A
# `jit` made in each call gets a new function in each. Compiling takes many times as
# long as a small step.

# %% [markdown]
# ### What leaf[0] sends
#
# **Predict, then run.** At the end of training you keep one replica. Since JAX 0.8,
# `leaf[0]` is a program of *all* devices, while `leaf.addressable_shards[0].data` is
# what one of them holds already, with nothing to run. What does the program send?

# %%
from coursekit.compiled_program import CompiledProgram

by_device = NamedSharding(mesh, P("devices"))
stacked = jax.device_put(np.ones((num_devices, 1000), np.float32), by_device)
program = CompiledProgram(jax.jit(lambda leaf: leaf[0]).lower(stacked).compile())
print("leaf[0]:", *map(str, program.collectives or ["nothing"]))
shard = stacked.addressable_shards[0].data
print("the first shard:", shard.shape, "on device", shard.device.id)

# %% [markdown]
# All devices get the row, as a sum: device 0 contributes the row, the others zeros. For
# a model of 7 billion parameters that is an all-reduce of the whole model, to fetch
# what device 0 has anyway.

# %% [markdown]
# ## 5. The batch that does not divide
#
# Data sets rarely divide: 1,797 images on 8 devices leave 5 over. In training you may
# drop a few rows and shuffle. In evaluation every row counts, and once. PyTorch's
# `DistributedSampler` fills the last batch up with rows that it has already given out,
# so some images are counted twice, and your accuracy depends on the number of GPUs.
#
# The careful way is to pad the batch, and to carry a *mask* that says which rows are
# valid.
#
# **Common mistake: counting the padding.** Below are 13 rows, padded with 3 rows of
# zeros. **Predict, then run.** Is the mean over the devices right?


# %%
def pad_rows(a, num_rows):  # appends rows of zeros
    return np.pad(a, [(0, num_rows - len(a)), *[(0, 0)] * (a.ndim - 1)])


params = init_mlp(0) | {"b2": np.float32([0.5])}  # now a row of zeros has an error
x, y = mlp_data(3, 13)
truth, _ = reference_perceptron(params, x, y)
x, y = (pad_rows(a, 16).reshape(num_devices, -1, *a.shape[1:]) for a in (x, y))
local = jax.pmap(mlp_loss, in_axes=(None, 0, 0))(params, x, y)
print(f"mean over 13 valid rows: {truth:.4f}")
print(f"mean over {num_devices} devices:     {np.mean(local):.4f}")
print("devices without a valid row:", np.sum(np.arange(0, 16, len(x[0])) >= 13))

# %% [markdown]
# The second mean counts three rows of zeros as if they were data. And one device has no
# valid row at all: a mean over its valid rows would be 0 / 0.

# %% [markdown]
# ### Exercise 3.4: pad_and_shard
#
# What counts is the number of valid rows of **all** devices. The mistake is famous: in
# 2024 it turned out that Hugging Face's trainer, with gradient accumulation, averaged
# the means of microbatches that held different numbers of tokens ([what they
# wrote](https://huggingface.co/blog/gradient_accumulation)). Models trained, losses
# fell, and they were the wrong losses.
#
# Write two functions. `pad_and_shard(batch, num_devices)` pads every array of a batch,
# splits it over the devices, and makes the mask. `weighted_loss` runs on each device of
# a `pmap` and returns this device's *share* of the mean loss.
#
# ```python
# x, y = mlp_data(3, 13)                       # f32[13, 10], f32[13]
# (x, y), mask = pad_and_shard((x, y), 8)      # f32[8, 2, 10], f32[8, 2], bool[8, 2]
# mask[6], mask[7]                             # [True, False], [False, False]
# ```
#
# - [padded and split] Arrays `(B, ...)` become `(D, k, ...)` with the smallest `k` that
#   holds all rows. The rows stay in order and keep their dtype (of at most 32 bits);
#   zeros fill the end.
# - [mask] `mask`, bool `(D, k)`, is true for the valid rows.
# - [share of the mean] A share is the sum of `(mlp(params, x) - y) ** 2` over this
#   device's valid rows, divided by the number of valid rows of **all** devices.
# - [gradients add up] The shares add up to the mean loss over all valid rows, and their
#   gradients to its gradient.
# - [padding does not matter] What the masked rows hold changes nothing, as long as
#   their errors are finite.


# %% exercise="pad_and_shard" minutes=20 difficulty=2
def pad_and_shard(batch, num_devices):
    """Pads a batch until its rows divide, and splits it over the devices.

    Args:
        batch: pytree of arrays (B, ...), with at least one row.
        num_devices: number of blocks D.

    Returns:
        (batch, mask): arrays (D, k, ...), and bool (D, k), true for valid rows.
    """
    ### BEGIN SOLUTION
    # All batches of an epoch get one shape, so the last, short one compiles nothing new.
    # The mask is padded like any other array: its padding is False.
    num_rows = len(jax.tree.leaves(batch)[0])
    per_device = -(-num_rows // num_devices)

    def split(a):
        padded = pad_rows(a, num_devices * per_device)
        return padded.reshape(num_devices, per_device, *a.shape[1:])

    return jax.tree.map(split, batch), split(np.ones(num_rows, bool))
    ### END SOLUTION


def weighted_loss(params, x, y, mask, axis_name):
    """Returns a device's share, f32 (): all shares add up to the mean of valid rows.

    Args:
        params: as `mlp` takes them.
        x: f32 (k, 10), this device's rows.
        y: f32 (k,).
        mask: bool (k,), true for valid rows; a device may have none.
        axis_name: the axis of devices.
    """
    ### BEGIN SOLUTION
    # Only the count is sent; it does not depend on the parameters, so the gradient of a
    # share is a device's own, and the sum of all is the gradient of the mean. A device
    # without valid rows adds 0, not 0 / 0.
    errors = jnp.where(mask, (mlp(params, x) - y) ** 2, 0)
    return errors.sum() / jax.lax.psum(mask.sum(), axis_name)
    ### END SOLUTION


# %% [markdown] hints="pad_and_shard"
# - `-(-B // D)` is `B / D`, rounded up. `pad_rows` above appends rows to one array, and
#   `jax.tree.map` reaches all arrays of a batch.
# - The mask is a batch like any other: pad and split `np.ones(B, bool)`.
# - A share: the sum over this device's valid rows, divided by
#   `jax.lax.psum(mask.sum(), axis_name)`.

# %% check="pad_and_shard"

# %% [markdown] built="pad_and_shard"
# An evaluation whose result does not depend on the number of devices. Flax has the
# first half as `flax.jax_utils.pad_shard_unpad`. The second half is how language models
# treat padding tokens: sum the loss over valid tokens, `psum` sum and count, divide
# once at the end. Notice that shares are combined by `psum`, not `pmean`: the division
# by the count is already done. Next you might choose `k` once for a whole data set, so
# that the last batch has the shape of all others and compiles nothing.

# %% [markdown]
# ## 6. An optimizer inside the step
#
# Optax's optimizers are two functions: `init(params)` makes the state, `update(grads,
# state, params)` returns what to add to the parameters, and the next state. The state
# is replicated like the parameters, and its replicas stay equal if each sees the
# **same** gradient.
#
# **Common mistake: clipping before the sync.** Clipping scales a gradient down if its
# norm is above a limit. It is not linear, so it matters whether it comes before or
# after the average. **Predict, then run.** Seven devices have a small gradient, one has
# a hard shard. Which order keeps the direction that most devices want?


# %%
def clip(grads, max_norm):  # grads: [..., N], one gradient per row
    norm = np.linalg.norm(grads, axis=-1, keepdims=True)
    return grads * np.minimum(1, max_norm / norm)


grads = np.array([[0.2, 0.0]] * 7 + [[0.0, 24.0]])
print("average, then clip:", clip(grads.mean(axis=0), 1).round(2))
print("clip, then average:", clip(grads, 1).mean(axis=0).round(2))

# %% [markdown]
# The two differ even in direction. Clipping each device's own gradient first is a sort
# of robust averaging, and perhaps not a bad idea, but it is another algorithm, whose
# result depends on the number of devices. One device with the whole batch does what the
# first printed line shows.

# %% [markdown]
# ### Exercise 3.5: optimizer_step
#
# This is how most language models are trained. Llama 2, for example: AdamW, gradients
# clipped to a norm of 1.0, weight decay 0.1, 2,000 steps of warm-up, then a cosine that
# ends at a tenth of the peak ([Touvron et al.,
# 2023](https://arxiv.org/abs/2307.09288)); ours ends at 0. Clipping keeps one bad batch
# from throwing the model off; the warm-up gives Adam's averages time to settle.
#
# Write `make_optimizer`, which builds this recipe from Optax's parts, for any pytree.
# Then complete `optimizer_step`, which runs on each device of a `pmap`: the loss and
# the gradients of this device's own rows are given.
#
# ```python
# optimizer = make_optimizer(3e-4, 2000, 500_000, max_norm=1.0, weight_decay=0.1)
# opt_state = optimizer.init(params)
# # inside the axis:
# params, opt_state, loss = optimizer_step(params, opt_state, x, y, optimizer, "devices")
# ```
#
# - [clipped by global norm] First the optimizer scales the gradients down so that their
#   global norm is at most `max_norm`.
# - [same numbers] After each step, with this or another Optax optimizer, parameters and
#   loss match a single device that sees the whole batch.
# - [then AdamW] AdamW with `weight_decay` follows, otherwise with Optax's defaults.
# - [warm-up and cosine] The learning rate rises linearly from 0 at step 0 to `peak_lr`
#   at step `warmup_steps`, then falls along a cosine to 0 at step `num_steps`, where it
#   stays.
# - [replicas agree] All devices return the same, bit for bit.
# - [one all-reduce] Each gradient, and the loss, is all-reduced once: all in one call,
#   or one call for each. Nothing else is sent.


# %% exercise="optimizer_step" minutes=20 difficulty=2
def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    """Makes AdamW after global-norm clipping; 0 < warmup_steps < num_steps."""
    ### BEGIN SOLUTION
    # Clipping comes first in the chain: after AdamW it would clip the update instead.
    # Optax's decay_steps counts from step 0, so the warm-up is a part of num_steps.
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)
    ### END SOLUTION


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    """Takes one synchronised step with an Optax optimizer, on one device.

    Args:
        params: this device's replica, of an `init_mlp` of any widths.
        opt_state: the optimizer's state, this device's replica.
        x: f32 (B, F), this device's rows.
        y: (B,).
        optimizer: what `make_optimizer` returned, or another Optax optimizer.
        axis_name: the axis of devices.

    Returns:
        (params, opt_state, loss): the mean loss before the step, f32 ().
    """
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    ### BEGIN SOLUTION
    # Sync before the optimizer sees anything: then its state is the same everywhere, and
    # any optimizer, linear or not, does what it does on one device. Averaging updates or
    # Adam's moments afterwards would be another algorithm, and send more.
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    ### END SOLUTION
    return params, opt_state, loss


# %% [markdown] hints="optimizer_step"
# - `optax.chain(first, second)` applies one after the other;
#   `optax.clip_by_global_norm` comes first.
# - `optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)` goes where
#   `optax.adamw` takes a learning rate.
# - `pmean` loss and gradients, then `optimizer.update(grads, opt_state, params)`, then
#   `optax.apply_updates(params, updates)`.

# %% check="optimizer_step"

# %% [markdown] built="optimizer_step"
# The optimizer step of most published language models, on as many devices as you like.
# In PyTorch the order is the same: `backward()` syncs, then `clip_grad_norm_`, then
# `optimizer.step()`. Adam's two moments are now replicated as well: 8 bytes for each
# parameter on every device, in float32, all equal. That is the waste which ZeRO
# removes: you split this state in lesson 2 (`sharded_update`) and meet FSDP in
# lesson 4. Once gradients are sharded, the global norm needs a `psum` of its own; Megatron-LM
# and DeepSpeed have code just for that.

# %% [markdown]
# ## 7. BatchNorm and dropout
#
# The last model is a small convolutional network for the digits. Two of its parts ask
# *which rows are the batch?* and *which device am I?*
#
# - **BatchNorm** normalises each channel with the mean and variance of the batch, its
#   *moments*. Here a function `moments(h)`, which the caller passes in, computes them.
# - **Dropout** drops random units. With one key all devices would drop the same ones:
#   eight times less randomness than you think.


# %%
def cnn(params, x, keep, moments):  # f32[B, 8, 8, 1] -> f32[B, 10], moments per layer
    used = []  # the moments of each layer
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


# %%
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


# %% [markdown]
# For predictions, BatchNorm keeps *running* moments: `0.9 * old + 0.1 * new` after each
# batch.
#
# **Common mistake: moments of one's own shard.** Below, each device takes the moments
# of its own four images, and the parameters stay as they are. **Predict, then run.** Do
# the running moments of the devices come to agree?


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

# %%
percent = 100 * (history / np.mean(history, axis=1, keepdims=True) - 1)
three = {f"device {d}": percent[:, d] for d in (0, 3, 6) if d < num_devices}
title = "Running mean of channel 0 on three devices, not synced"
draw_losses(three, "% off the average of eight", title, log=False)

# %% [markdown]
# The curves cross, but they do not come together: a few percent remain. Which of the
# eight replicas would you save? And each shard of four images was normalised in its own
# way, so what the network computes for an image depends on the three beside it.

# %% [markdown]
# ### Exercise 3.6: cnn_step
#
# With moments over the rows of all devices, this is known as **SyncBatchNorm**. It
# matters most where only one or two images fit on a device, as in object detection:
# with it, [MegDet](https://arxiv.org/abs/1711.07240) trained on 128 GPUs, two images on
# each, and won the COCO detection challenge of 2017.
#
# Complete the step that each device of a `pmap` takes. The sync of the gradients and
# the update are given; you write `dropout_mask`, and the function `moments` inside
# `cnn_step`. All devices get the same `key`. The number of the step, `step`, may be
# traced.
#
# ```python
# state = init_cnn(0)                        # {"params": ..., "stats": ...}
# # inside the axis, with this device's four images:
# dropout_mask(jax.random.key(0), 3, (4, 64), "devices")   # bool[4, 64]
# state, loss = cnn_step(state, jax.random.key(0), 3, x, y, 0.2, "devices")
# ```
#
# - [mask per step and device] `dropout_mask` folds `step` into the key, **then** the
#   device's index, and draws `jax.random.bernoulli(key, 0.5, shape)`.
# - [moments of the whole batch] Mean and variance are those of the rows of all devices,
#   as `batch_moments` computes them on one device.
# - [same numbers] State and loss match a single device that sees the whole batch and
#   applies each device's mask to that device's rows; gradients flow through the
#   moments.
# - [replicas agree] All devices return the same, bit for bit.


# %% exercise="cnn_step" minutes=25 difficulty=3
def dropout_mask(key, step, shape, axis_name):
    """Draws this device's mask: bool of `shape`, each entry true with probability 1/2."""
    ### BEGIN SOLUTION
    # Folding in the step and the device costs nothing to keep or to send, and a run that
    # is resumed at step 1000 draws the masks that it would have drawn anyway.
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

    def moments(h):  # f32[B, H, W, C] -> mean and variance over all devices: f32[C]
        ### BEGIN SOLUTION
        # The mean first, then squared distances from it: accurate even if the mean is
        # large. Flax's BatchNorm(axis_name=...) averages h and h**2 in one go: one
        # all-reduce in place of two, and less accurate far from 0.
        mean = jax.lax.pmean(h.mean((0, 1, 2)), axis_name)
        return mean, jax.lax.pmean(((h - mean) ** 2).mean((0, 1, 2)), axis_name)
        ### END SOLUTION

    def loss_of(params):
        keep = dropout_mask(key, step, (len(x), len(params["out"])), axis_name)
        logits, used = cnn(params, x, keep, moments)
        return cross_entropy(logits, y), used

    found, grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    (loss, used), grads = jax.lax.pmean((found, grads), axis_name)
    params = sgd(state["params"], grads, lr)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


# %% [markdown] hints="cnn_step"
# - `jax.random.fold_in(key, number)` makes a new key of both; the device's number is
#   `jax.lax.axis_index(axis_name)`.
# - The variance of all rows is not the mean of the devices' variances: the devices'
#   means differ, too. First agree on the mean, with `pmean`.
# - Then `pmean` the mean of `(h - mean) ** 2`. In `pmap`, the gradient of a `pmean` is
#   again a `pmean`, so the gradient finds its way through the moments.

# %% check="cnn_step"

# %% [markdown] built="cnn_step"
# SyncBatchNorm, as in PyTorch's `SyncBatchNorm`, Flax's `BatchNorm(axis_name=...)` and
# Keras' `BatchNormalization(synchronized=True)`. It puts an all-reduce into the forward
# pass of *every* layer, on which the next layer waits; that is one reason why newer
# models normalise each example or token by itself (LayerNorm, RMSNorm) and need no sync
# at all. Under `jax.jit` with a sharded batch (lesson 4), `h.mean()` is the mean of the
# global array, and the compiler puts the all-reduces in: BatchNorm is synchronised
# unless you say otherwise. Flax's examples fold the step into their dropout keys in the
# same way.

# %% [markdown]
# What to remember from the second part: pad and mask what does not divide, and divide
# by the count of *all* valid rows. Sync once, and clip after the sync. Moments belong
# to the whole batch, a dropout mask to one device and one step.

# %% [markdown]
# ## Now in the wild
#
# - [JAX's guide to today's pmap](https://docs.jax.dev/en/latest/migrate_pmap.html)
#   shows how to move; you now know what it leaves out.
# - [The scaling book](https://jax-ml.github.io/scaling-book/) computes when data
#   parallelism is limited by its all-reduce.
# - Whole programs are in `solutions/references/`; each has `--help`.
#   `pmap_linear_regression.py` is section 1, `keras_digits.py` section 7 by Keras under
#   `jit`, `sharded_pipeline.py` a linear fit under `jit`. `ensemble.py` trains eight
#   CNNs, one per device, *without* a sync, and averages what they say: lesson 2's
#   `ensemble_probs`.
#
# **Next**: [lesson 4](04_sharding_api.ipynb), where the compiler puts the collectives
# in.

# %% [markdown]
# **Your score.** The scorecard shows what the checks above said last. Save the
# notebook, then run `make grade` in a terminal, in the course's folder: it grades the
# saved file as a class's work is graded, and shows the same cards.

# %% scorecard=true
