"""Checks of lesson 3: eight devices take the step of one on the whole batch."""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.checks import demo, hidden, visible
from coursekit.expect import (
    expect,
    expect_close,
    expect_result,
    expect_shapes,
)
from coursekit.expect_program import (
    expect_arrays,
    expect_collectives,
    expect_devices,
    expect_held,
    expect_moved,
    expect_one_sync,
    expect_own_rows,
    expect_replicas,
)
from coursekit.hidden_cases import Case
from coursekit.learner import (
    accumulated_step,
    batch_moments,
    cnn,
    cnn_step,
    copies,
    cross_entropy,
    dropout_mask,
    init_cnn,
    init_mlp,
    load_images,
    local_stats,
    make_optimizer,
    mlp_data,
    mlp_loss,
    mlp_scores,
    moving_average,
    optimizer_step,
    pad_and_shard,
    pad_rows,
    shard_map_step,
    train_step,
    weighted_loss,
)
from coursekit.observe import observe
from coursekit.outcomes import statement
from coursekit.reference_checks import expect_like_solution
from coursekit.references import (
    reference_perceptron,
    reference_sgd,
)
from coursekit.tracing import num_donated


def random_numbers(rng, dtype, *shape):  # with all bits of their dtype
    bits = rng.integers(-(2**31), 2**31, shape)
    return (bits if jnp.issubdtype(dtype, jnp.integer) else bits / 2**20).astype(dtype)


RULES = {"arguments": "arguments stay", "memory": "nothing is remembered"}
X = 4  # its place, after four parameters
STEP = {"[0]": "same numbers", "[1]": "loss before the step"}  # what it returns


def num_lost(*trees):  # arrays that were donated or deleted
    return sum(leaf.is_deleted() for leaf in jax.tree.leaves(trees))


def expect_none_lost(seen):  # by what returns their number last
    expect_result(seen)
    headline = "Arrays were donated or deleted."
    expected = "the caller's arrays can be used again: no donate_argnums, no delete()"
    expect(seen, not seen.value[-1], headline, expected=expected)


def expect_no_recompilation(step, params, x, y, *more):  # after a call with lr 0.1
    again = "A call with the same shapes and the same lr compiled again."
    anew = (
        "each call makes a new function, which is compiled again: make one, and keep it"
    )
    inside = (
        "lr is a constant of the program: pass it as an argument that is not static"
    )
    for lr, headline, cause, always in (
        (0.1, again, anew, True),
        (np.random.rand(), "Another lr compiled anew.", inside, False),  # new each run
    ):
        call = functools.partial(observe, step, params, x, y, np.float32(lr), *more)
        causes = {cause: lambda _, f=call, a=always: bool(f().num_compiles) == a}
        seen = call()
        expect(seen, not seen.num_compiles, headline, causes=causes)


FOR_TRAINING = 1437  # of 1,797 digits; the others are held out


def digit_batches(num_steps, *shape):  # a list of x: f32[*shape, 64], y: i32[*shape]
    images, labels = load_images()
    x, found = images.reshape(len(images), -1), []
    for step in range(num_steps):
        rng = np.random.default_rng(step)
        rows = rng.choice(FOR_TRAINING, shape, replace=False)
        found.append((x[rows], labels[rows]))
    return found


def one_device(params, batches, lr):  # trained in NumPy
    losses = []
    for x, y in batches:
        params, [loss] = reference_sgd(params, x, y, lr, 1)
        losses.append(loss)
    return params, losses


def show_training(params, title, curves):  # one device's curve is the first
    from coursekit.draw import draw_losses

    first, *others = curves.values()
    draw_losses(curves, "loss", title, log=False)
    apart = max(np.abs(np.subtract(first, other)).max() for other in others)
    print(f"All curves agree to 0.001: {apart < 0.001}")
    images, labels = load_images()
    x = images[FOR_TRAINING:].reshape(-1, 64)
    said = np.argmax(mlp_scores(params, x), axis=1)
    part = np.mean(said == labels[FOR_TRAINING:])
    print(f"Of 360 digits that it has never seen, it reads {100 * part:.0f} % right.")


def labelled(rng, *shape):  # x: f32[*shape, 10], y: i32[*shape], of two classes
    return mlp_data(1, *shape)[0], np.int32(rng.integers(2, size=shape))


def random_params(rng, width, num_devices=None):  # no bias is 0
    params = init_mlp(rng.integers(10**6), width)
    params = jax.tree.map(lambda p: np.float32(p + rng.normal()), params)
    return params if num_devices is None else copies(params, num_devices)


CLOSE = {"rtol": 1e-4, "atol": 1e-5}
expect_params = functools.partial(expect_close, part="[0]", **CLOSE)
expect_loss = functools.partial(expect_close, part="[1]", **CLOSE)


def unsent():  # why replicas may differ
    causes = {"no device sends anything": lambda seen: seen.collectives == ()}
    cause = "only a loss is sent: in pmap, its pmean leaves each gradient as it was"
    causes[cause] = lambda seen: {one.shape for one in seen.collectives or ()} == {()}
    return causes


def two_steps(params, x, y, lr):
    params, x, y = jax.tree.map(jnp.asarray, (params, x, y))
    first = jax.tree.map(jnp.asarray, train_step(params, x, y, lr)[0])
    second = jax.tree.map(np.asarray, train_step(first, x, y, lr))
    donated = num_donated(train_step, params, x, y, lr)
    return *second, donated + num_lost(params, x, y, first)


@visible(
    "train_step",
    points=3,
    essential=["same numbers", "own rows only"],
    others=[
        "loss before the step",
        "replicas agree",
        "one all-reduce",
        "no recompilation",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_train_step():
    params, many = init_mlp(1), jax.device_count()
    x, y = mlp_data(2, many, 16)
    after, [loss] = reference_sgd(params, x, y, 0.1, 1)
    far, _ = reference_sgd(params, x, y, 0.1 * many, 1)
    seen = observe(train_step, copies(params, many), x, y, np.float32(0.1), traced=True)
    causes, cause = unsent(), "gradients are combined, losses are not"
    causes[cause] = lambda seen: np.ptp(seen.value[0]["w1"], axis=0).max() == 0
    mistakes = {
        f"the gradients were added up: {many} times too large": (far, loss),
        "gradients and loss were added up, not averaged": (far, many * loss),
        "that is the loss after the step": (
            after,
            reference_perceptron(after, x, y)[0],
        ),
    }
    right, mistakes = copies(((after, loss), mistakes), many)
    with statement("same numbers"):
        expect_params(seen, right, mistakes=mistakes)
    with statement("loss before the step"):
        expect_loss(seen, right, mistakes=mistakes)
    with statement("replicas agree"):
        expect_replicas(seen, causes=causes)
        expect_devices(seen, many)
    with statement("own rows only"):
        expect_arrays(seen, never=(16 * many, 32))
        expect_own_rows(seen, X)
    with statement("one all-reduce"):
        expect_one_sync(seen, params, many)
    with statement("no recompilation"):
        expect_no_recompilation(train_step, copies(params, many), x, -y)


@demo("train_step")
def digits_by_train_step():
    there, start = jax.device_count(), init_mlp(0, inputs=64, outputs=10)
    batches, params, losses = digit_batches(100, there, 16), copies(start, there), []
    for x, y in batches:
        params, loss = train_step(params, x, y, 0.5)
        losses.append(np.asarray(loss)[0])
    curves = {"one device": one_device(start, batches, 0.5)[1]}
    curves["your train_step"] = losses
    params = jax.tree.map(lambda leaf: np.asarray(leaf)[0], params)
    show_training(params, f"Your train_step learns digits on {there} devices", curves)


@visible(
    "accumulated_step",
    points=3,
    essential=["same numbers", "one microbatch at a time", "one all-reduce"],
    others=["loss before the step", "replicas agree", "arguments stay"],
)
def examples_of_accumulated_step():
    params, there = init_mlp(1), jax.device_count()
    x, y = mlp_data(5, there, 4, 16)
    (after, [loss]), small, found = reference_sgd(params, x, y, 0.1, 1), params, []
    for m in range(4):
        small, [first] = reference_sgd(small, x[:, m], y[:, m], 0.1, 1)
        found.append(first)
    mistakes = {"each microbatch took a step of its own": (small, np.mean(found))}
    for who, many in {"microbatches": 4, "devices": there}.items():
        far = reference_sgd(params, x, y, many * 0.1, 1)[0]
        mistakes[f"the gradients of the {who} were added up, not averaged"] = far, loss
        mistakes[f"gradients and losses of the {who} were added up"] = far, many * loss
    inputs = (copies(params, there), x, y, 0.1, "devices")
    seen = observe(accumulated_step, *inputs, axis="devices", traced=True)
    right, mistakes = copies(((after, loss), mistakes), there)
    with statement("same numbers"):
        expect_params(seen, right, mistakes=mistakes)
    with statement("loss before the step"):
        expect_loss(seen, right, mistakes=mistakes)
    with statement("replicas agree"):
        expect_replicas(seen, causes=unsent())
    with statement("one all-reduce"):
        expect_collectives(seen, in_loop=False)
        expect_one_sync(seen, params, there)
    with statement("one microbatch at a time"):
        for shape in ((64, 32), (4, 16, 32), (32, 32), (2, 16, 32)):
            expect_arrays(seen, never=shape)


@demo("accumulated_step")
def digits_by_accumulated_step():
    there, start = jax.device_count(), init_mlp(0, inputs=64, outputs=10)
    batches, params, losses = digit_batches(50, there, 4, 16), copies(start, there), []
    step = jax.pmap(lambda *own: accumulated_step(*own, 1.0, "devices"), "devices")
    for x, y in batches:
        params, loss = step(params, x, y)
        losses.append(np.asarray(loss)[0])
    curves = {"one device": one_device(start, batches, 1.0)[1]}
    curves["your accumulated_step"] = losses
    params = jax.tree.map(lambda leaf: np.asarray(leaf)[0], params)
    title = f"An effective batch of {there} devices x 4 microbatches x 16 rows"
    show_training(params, title, curves)
    numbers = 1 + sum(map(np.size, jax.tree.leaves(start)))
    once = 4 * numbers * 2 * (there - 1) / there
    print(f"In each step a device sends {once:,.0f} bytes, for {there * 64} rows;")
    print(f"with a sync after each microbatch it would send {4 * once:,.0f}.")


def placed_step(params, x, y, lr, num_devices):  # what it gives, and deletes
    mesh = Mesh(jax.devices()[:num_devices], ("i",))  # arrays lie where they are needed
    params = jax.device_put(params, NamedSharding(mesh, P()))
    rows = jax.device_put((x, y), NamedSharding(mesh, P("i")))
    found = shard_map_step(params, *rows, lr, num_devices)
    return *jax.tree.map(np.asarray, found), num_lost(params, rows)


@visible(
    "shard_map_step",
    points=4,
    essential=["same numbers", "own rows only"],
    others=[
        "loss before the step",
        "replicated result",
        "one all-reduce",
        "no recompilation",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_shard_map_step():
    params, many, mistakes = init_mlp(1), jax.device_count(), {}
    x, y = mlp_data(7, 8 * many)
    after, [loss] = reference_sgd(params, x, y, 0.1, 1)
    for times in (many, many**2, 1 / many, many / 2, many**2 / 4, 2 / many):
        far = reference_sgd(params, x, y, 0.1 * times, 1)[0]
        cause = f"the gradient is {times:g} times the right one"
        mistakes[cause] = far, loss
        mistakes[f"{cause}; the loss is a sum"] = far, many * loss

    cause = 'the program splits no rows: shard_map does, with P("devices") for x and y'
    causes = {cause: lambda seen: (8 * many, 32) in seen.array_shapes}
    for number, how in ((many, "traced"), (max(2, many // 2), "compiled")):
        inputs = params, x, y, np.float32(0.1), number
        seen = observe(shard_map_step, *inputs, **{how: True})
        with statement("same numbers"):
            expect_params(seen, (after, loss), mistakes=mistakes)
        with statement("loss before the step"):
            expect_loss(seen, (after, loss), mistakes=mistakes)
        with statement("replicated result"):
            where = {len(pieces) for pieces in seen.layout.values()}
            headline = f"The result is not on all {number} devices."
            rows = {"seen": f"on {max(where, default=0)}"}
            expect(seen, where == {number}, headline, **rows)
        with statement("own rows only", "one all-reduce"):
            least = 0.99 * 4 * 386 * 2 * (number - 1) / number
            expect_moved(seen, at_least=least, causes=causes)
        with statement("one all-reduce"):
            expect_one_sync(seen, params, number)
        with statement("own rows only"):
            expect_own_rows(seen, X)
    with statement("own rows only"):
        expect_arrays(seen, never=(8 * many, 32))
    with statement("no recompilation"):
        expect_no_recompilation(shard_map_step, params, x, -y, many)


@demo("shard_map_step")
def digits_by_shard_map_step():
    there, start = jax.device_count(), init_mlp(0, inputs=64, outputs=10)
    batches = digit_batches(60, 16 * there)
    curves = {"one device, in NumPy": one_device(start, batches, 0.5)[1]}
    for num_devices in (max(1, there // 4), there):
        params, losses = start, []
        for x, y in batches:
            params, loss = shard_map_step(params, x, y, 0.5, num_devices)
            losses.append(np.asarray(loss))
        curves[f"your step, {num_devices} devices"] = losses
    show_training(params, "Your shard_map_step on different meshes", curves)


def shares(params, x, y, mask, axis_name):  # each, and all with their gradients
    found = jax.value_and_grad(weighted_loss)(params, x, y, mask, axis_name)
    return found[0], jax.lax.psum(found, axis_name)


def summed(*inputs):
    return shares(*inputs)[1]


PADDED = {"[0]": "padded and split", "[1]": "mask"}
SHARES = {"[0]": "share of the mean", "[1]": "gradients add up"}


def wrong_counts(params, padded, mask, truth):  # what other counts than all's give
    def scaled(factor, tree):
        return jax.tree.map(lambda leaf: factor * leaf, tree)

    every = reference_perceptron(params, *padded)
    own = [(x[true], y[true]) for x, y, true in zip(*padded, mask, strict=True)]
    means = [reference_perceptron(params, *rows) for rows in own if len(rows[0])]
    causes = {"masked rows were counted like true ones": every}
    causes["masked rows were added up"] = scaled(mask.size / mask.sum(), every)
    many = len(mask)
    causes[f"the shares add up to {many} times the mean"] = scaled(many, truth)
    cause = "each device divided by the number of its own true rows"
    return causes | {cause: jax.tree.map(lambda *parts: sum(parts), *means)}


@visible(
    "pad_and_shard",
    points=3,
    essential=["padded and split", "mask", "share of the mean"],
    others=[
        "gradients add up",
        "padding does not matter",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_pad_and_shard():
    params, many = init_mlp(1), jax.device_count()
    x, y = mlp_data(4, 2 * many)
    x[3], y[3] = 0, 0  # a true row as well
    for num_rows in (2 * many, 2 * many - min(3, many - 1)):
        mask = np.arange(2 * many).reshape(many, 2) < num_rows
        true = x[:num_rows], y[:num_rows]
        padded = tuple(
            pad_rows(a, 2 * many).reshape(many, 2, *a.shape[1:]) for a in true
        )
        cause = "a true row of zeros was taken for padding"
        mistakes = {cause: (padded, padded[1] != 0)}
        seen = observe(pad_and_shard, true, many)
        for part, name in PADDED.items():
            with statement(name):
                expect_close(seen, (padded, mask), part=part, mistakes=mistakes)
    truth, filled = reference_perceptron(params, *true), jax.tree.map(np.copy, padded)
    for rows in filled:
        rows[~mask] = 7
    mistakes = wrong_counts(params, filled, mask, truth)
    close = {"mistakes": copies(mistakes, many), **CLOSE}
    cause = f"that is nan, as 0 / 0 is: device {many - 1} has no true row"
    close["causes"] = {cause: lambda seen: np.isnan(seen.value[0]).all()}
    inputs = copies(params, many), *filled, mask, "i"
    seen = observe(summed, *inputs, axis="i")
    for part, name in SHARES.items():
        with statement(name):
            expect_close(seen, copies(truth, many), part=part, **close)
    other = observe(summed, inputs[0], *padded, *inputs[3:], axis="i")
    with statement("padding does not matter"):
        expect_close(other, seen.value, **CLOSE)


@demo("pad_and_shard")
def hundred_rows_on_any_number_of_devices():
    params, batch = init_mlp(0) | {"b2": np.float32([0.5])}, mlp_data(3, 100)
    print("The mean loss of 100 rows:")
    print("devices  rows each  padding  your shares  mean of means")
    for there in dict.fromkeys((1, 3, 6, jax.device_count())):
        (x, y), mask = pad_and_shard(batch, there)
        share = jax.pmap(lambda *own: weighted_loss(params, *own, "i"), "i")
        loss = np.sum(share(x, y, mask))
        mean = np.mean([mlp_loss(params, *rows) for rows in zip(x, y, strict=True)])
        rows, padding = np.shape(mask)[1], np.size(mask) - 100
        print(f"{there:7} {rows:10} {padding:8} {loss:12.4f} {mean:14.4f}")


def run_steps(params, x, y, num_steps):  # with another optimizer than make_optimizer's
    optimizer = optax.chain(optax.clip(0.3), optax.sgd(0.2, momentum=0.9))

    def step(carry, _):
        params, before = carry[0], jax.tree.leaves(carry)
        now, state, loss = optimizer_step(*carry, x, y, optimizer, "devices")
        after = jax.tree.leaves((params, carry[1]))
        if list(map(id, after)) != list(map(id, before)):
            raise RuntimeError("optimizer_step changes the trees that it was given")
        return (now, state), loss

    carry = (params, optimizer.init(params))
    (params, _), losses = jax.lax.scan(step, carry, length=num_steps)
    return params, losses


def reference_run(params, x, y, num_steps, combine):  # of each device's gradients
    params, losses = jax.tree.map(np.float64, params), []
    speed = jax.tree.map(np.zeros_like, params)
    for _ in range(num_steps):
        found = [reference_perceptron(params, *rows) for rows in zip(x, y, strict=True)]
        losses.append(np.mean([loss for loss, _ in found]))
        for name in params:
            grad = combine(np.array([grads[name] for _, grads in found]))
            speed[name] = 0.9 * speed[name] + grad
            params[name] = params[name] - 0.2 * speed[name]
    return params, np.array(losses)


def updates_of(optimizer, update, params, grads):  # a gradient per step, params stay
    state, found = optimizer.init(params), []
    for number in range(len(jax.tree.leaves(grads)[0])):
        now = jax.tree.map(operator.itemgetter(number), grads)
        updates, state = update(now, state, params)
        found.append(jax.tree.map(np.asarray, updates))
    return jax.tree.map(lambda *rows: np.stack(rows), *found)


def learning_rates(peak_lr, warmup_steps, num_steps, weight_decay):
    # Where the gradient is always 1, an update of Adam is the learning rate.
    optimizer = make_optimizer(peak_lr, warmup_steps, num_steps, 1e6, weight_decay)
    ones = np.ones(num_steps + 4, np.float32)  # beyond the end, too
    return -updates_of(optimizer, jax.jit(optimizer.update), np.float32(0), ones)


def directions(params, grads, max_norm, weight_decay):  # updates / learning rate
    num_steps = len(jax.tree.leaves(grads)[0])
    settings = 0.1, 1, 2 * num_steps  # the learning rate is 0 in the first step only
    steady = make_optimizer(*settings, 1e6, weight_decay)
    ones = np.ones(num_steps, np.float32)
    rates = -updates_of(steady, steady.update, np.float32(0), ones)
    optimizer = make_optimizer(*settings, max_norm, weight_decay)
    updates = updates_of(optimizer, optimizer.update, params, grads)
    return jax.tree.map(lambda leaf: (leaf[1:].T / rates[1:]).T, updates)


def norms_of(grads):  # of a gradient per step
    flat = [np.reshape(g, (len(g), -1)) for g in jax.tree.leaves(grads)]
    return np.linalg.norm(np.hstack(flat), axis=1)


def clipped_to(max_norm, grads):
    factors = np.float32(np.minimum(1, max_norm / np.maximum(norms_of(grads), 1e-30)))
    return jax.tree.map(lambda g: (g.T * factors).T, grads)


def beside_clipped(params, grads, max_norm):  # 0: the optimizer clips them as well
    found = directions(params, grads, max_norm, 0.0)
    wanted = directions(params, clipped_to(max_norm, grads), 1e6, 0.0)
    return jax.tree.map(np.subtract, found, wanted)


def reference_directions(params, grads, weight_decay):  # of AdamW, in 64 bits
    def leaf_directions(p, grads):
        found, mu, nu = [], 0, 0
        for n, g in enumerate(np.float64(grads), 1):
            mu, nu = 0.9 * mu + 0.1 * g, 0.999 * nu + 0.001 * g**2
            step = mu / (1 - 0.9**n) / (np.sqrt(nu / (1 - 0.999**n)) + 1e-8)
            found.append(-step - weight_decay * p)
        return np.array(found)[1:]

    return jax.tree.map(leaf_directions, params, grads)


def varied_gradients(rng, num_steps, scale=1.0):  # and the norm that half of them have
    def draw(*shape):  # Adam would forget a factor of all steps
        drawn = rng.normal(size=(num_steps, *shape), scale=scale)
        return np.float32((drawn.T * (1 + np.arange(num_steps) % 3)).T)

    grads = {"z": [draw(3), draw(2, 2)], "a": draw()}
    return grads, float(np.median(norms_of(grads)))


def two_steps_of_sgd(params, x, y, momentum, axis_name):
    sgd = optax.sgd(0.2, momentum, nesterov=True)
    sgd = optax.chain(optax.add_decayed_weights(0.1), sgd)  # needs the parameters
    optimizer = optax.chain(optax.clip(0.3), sgd) if momentum < 0.8 else sgd
    state, losses, data = optimizer.init(params), [], (x, y, optimizer, axis_name)
    for _ in range(2):
        params, state, loss = optimizer_step(params, state, *data)
        losses.append(loss)
    return params, jax.tree.leaves(state), losses


@visible(
    "optimizer_step",
    points=3,
    essential=["clipped by global norm", "same numbers"],
    others=["then AdamW", "warm-up and cosine", "replicas agree", "one all-reduce"],
)
def examples_of_optimizer_step():
    grads, max_norm = varied_gradients(np.random.default_rng(1), 6)
    params, close = jax.tree.map(lambda g: 3 * g[0], grads), {"rtol": 1e-3}
    moves = functools.partial(reference_directions, params)
    unclipped = moves(clipped_to(max_norm, grads), 0)
    unclipped = jax.tree.map(np.subtract, moves(grads, 0), unclipped)
    mistakes = {"nothing was clipped (by global norm, before AdamW)": unclipped}
    seen = observe(beside_clipped, params, grads, max_norm)
    with statement("clipped by global norm"):
        zeros = jax.tree.map(np.zeros_like, unclipped)
        expect_close(seen, zeros, atol=1e-3, mistakes=mistakes, **close)
    mistakes = {"there is no weight decay": moves(grads, 0)}
    seen = observe(directions, params, grads, 1e6, 0.1)
    with statement("then AdamW"):
        wanted = moves(grads, 0.1)
        expect_close(seen, wanted, atol=1e-3, mistakes=mistakes, **close)
    steps = np.arange(16)
    rise, rates = np.minimum(steps / 4, 1), {}  # of a peak of 1
    for last in (8, 12, 16):
        wave = (1 + np.cos(np.pi * np.clip((steps - 4) / (last - 4), 0, 1))) / 2
        rates[last] = 0.05 * rise * np.where(steps < 4, 1, wave)
    mistakes = {
        "the learning rate is constant": np.full(16, 0.05),
        "after the warm-up the learning rate is constant": 0.05 * rise,
        "the cosine ends early: Optax counts the warm-up in": rates[8],
        "the cosine ends late: Optax counts the warm-up in": rates[16],
    }
    seen = observe(learning_rates, 0.05, 4, 12, 0.1)
    with statement("warm-up and cosine"):
        expect_close(seen, rates[12], atol=1e-5, mistakes=mistakes, **close)
    there, params = jax.device_count(), init_mlp(1)
    x, y = mlp_data(6, there, 16)
    y[0] *= 4  # a hard shard
    run = functools.partial(reference_run, params, x, y, 3)
    right, far, own = (
        run(lambda grads: np.clip(grads.mean(0), -0.3, 0.3)),
        run(lambda grads: np.clip(grads.sum(0), -0.3, 0.3)),
        run(lambda grads: np.clip(grads, -0.3, 0.3).mean(0)),
    )
    mistakes = {"the gradients were added up": far}
    mistakes["gradients and losses were added up"] = far[0], there * far[1]
    mistakes["the optimizer saw each device's own gradient"] = own
    inputs = (copies(params, there), x, y, 3)
    seen = observe(run_steps, *inputs, axis="devices", traced=True)
    right, mistakes = copies((right, mistakes), there)
    with statement("same numbers"):
        expect_shapes(seen, right)
    with statement("replicas agree"):
        expect_replicas(seen, causes=unsent())
    with statement("same numbers"):
        expect_close(seen, right, rtol=1e-3, atol=1e-4, mistakes=mistakes)
    with statement("one all-reduce"):
        expect_one_sync(seen, params, there, 3)


@demo("optimizer_step")
def digits_by_optimizer_step():
    from coursekit.draw import draw_losses

    start, curves = init_mlp(0, inputs=64, outputs=10), {}
    optimizer = make_optimizer(0.01, 20, 100, 1.0, 0.1)

    def step(params, state, x, y):
        return optimizer_step(params, state, x, y, optimizer, "i")

    for name, there in {"one device": 1, "all devices": jax.device_count()}.items():
        mapped = jax.pmap(step, "i", devices=jax.devices()[:there])
        params, state = copies((start, optimizer.init(start)), there)
        curves[name] = []
        for x, y in digit_batches(100, 128):
            own = (a.reshape(there, 128 // there, *a.shape[1:]) for a in (x, y))
            params, state, loss = mapped(params, state, *own)
            curves[name].append(np.asarray(loss)[0])
    rates = {"learning rate": learning_rates(0.01, 20, 100, 0.1)}
    draw_losses(rates, "learning rate", "Your warm-up and cosine", log=False)
    params = jax.tree.map(lambda leaf: np.asarray(leaf)[0], params)
    show_training(params, "Your optimizer_step learns digits", curves)


def mask_keys(key, step, many):  # what masks are drawn from, and mistakes
    fold, every = jax.random.fold_in, range(many)
    alike = "every device drops the same units: fold the device's index in"
    causes = {alike: [fold(key, step)] * many}
    causes["the step is not in the key"] = [fold(key, d) for d in every]
    cause = "the device came before the step"
    causes[cause] = [fold(fold(key, d), step) for d in every]
    return [fold(fold(key, step), d) for d in every], causes


def draw_masks(keys, shape):
    return np.stack([jax.random.bernoulli(key, 0.5, shape) for key in keys])


def images(many):  # four on each device, brighter ones on later devices
    x = np.random.default_rng(0).random((1, 8, 8, 4, many)) * np.arange(1, many + 1)
    return np.float32(x).T, np.int32(np.arange(4 * many) % 10).reshape(many, 4)


@jax.jit
def reference_cnn_step(state, keep, x, y, lr):  # one device, the rows of all
    x, y, keep = (a.reshape(-1, *a.shape[2:]) for a in (x, y, keep))

    def loss_of(params):
        logits, used = cnn(params, x, keep, batch_moments)
        return cross_entropy(logits, y), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


def expect_moments(seen, state, x, right):  # whatever the parameters and the loss
    many = len(x)
    expect_shapes(seen, copies(right, many))

    def result(stats):
        return {"params": seen.value[0]["params"], "stats": stats}, seen.value[1]

    own = local_stats(copies(state, many), x)["stats"]
    means = copies(jax.tree.map(lambda leaf: np.mean(leaf, axis=0), own), many)
    mistakes = {"each device took the moments of its own rows": result(own)}
    cause = "each variance is the mean of the devices' own: first agree on the mean"
    mistakes[cause] = result(means)
    wanted = result(copies(right[0]["stats"], many))
    expect_close(seen, wanted, rtol=1e-3, atol=1e-4, mistakes=mistakes)


@visible(
    "cnn_step",
    points=4,
    essential=[
        "mask per step and device",
        "same numbers",
        "moments of the whole batch",
    ],
    others=["replicas agree", "arguments stay"],
)
def examples_of_cnn_step():
    key, shape, many = jax.random.key(5), (4, 16), jax.device_count()
    keys, causes = mask_keys(key, 3, many)
    masks = draw_masks(keys, shape)
    causes = {cause: draw_masks(keys, shape) for cause, keys in causes.items()}
    inputs = (jnp.stack([key] * many), np.int32([3] * many))
    seen = observe(dropout_mask, *inputs, shape, "devices", axis="devices")
    with statement("mask per step and device"):
        expect_close(seen, masks, mistakes=causes)
    (x, y), state = images(many), init_cnn(1, (3,), hidden=16)
    right, far = (
        reference_cnn_step(state, masks, x, y, lr) for lr in (0.2, 0.2 * many)
    )
    inputs = (copies(state, many), *inputs, x, y, 0.2, "devices")
    seen = observe(cnn_step, *inputs, axis="devices")
    with statement("moments of the whole batch"):
        expect_moments(seen, state, x, right)
    with statement("replicas agree"):
        expect_replicas(seen)
    mistakes = {"the gradients were added up, not averaged": copies(far, many)}
    with statement("same numbers"):
        right = copies(right, many)
        expect_close(seen, right, rtol=1e-3, atol=1e-4, mistakes=mistakes)


@demo("cnn_step")
def digits_by_cnn_step():
    from coursekit.draw import draw_digits, draw_losses

    many, state, key = jax.device_count(), init_cnn(0), jax.random.key(0)
    images, labels = load_images()

    def run(state, number, x, y):
        return cnn_step(state, key, number, x, y, 0.2, "devices")

    step, size = jax.pmap(run, "devices", in_axes=(0, None, 0, 0)), (many, 64 // many)
    stacked, alone = copies(state, many), state
    curves = {"one device, 20 steps": [], "your cnn_step": []}
    for number in range(176):  # about eight epochs
        rng = np.random.default_rng(number)
        rows = rng.choice(FOR_TRAINING, size, replace=False)
        x, y = images[rows], labels[rows]
        if number < 20:
            masks = draw_masks(mask_keys(key, number, many)[0], (size[1], 64))
            alone, loss = reference_cnn_step(alone, masks, x, y, 0.2)
            curves["one device, 20 steps"].append(float(loss))
        stacked, loss = step(stacked, number, x, y)
        curves["your cnn_step"].append(np.asarray(loss)[0])
    title = f"Your cnn_step learns digits on {many} devices"
    draw_losses(curves, "loss", title, log=False)
    one = jax.tree.map(lambda leaf: np.asarray(leaf)[0], stacked)
    stats = iter(one["stats"])  # predictions take the running moments
    x, y = images[FOR_TRAINING:], labels[FOR_TRAINING:]
    logits, _ = cnn(one["params"], x, 0.5, lambda _: next(stats).values())
    said = np.argmax(logits, axis=1)
    draw_digits(
        x[:10], said[:10], "Ten digits that it has never seen, as it reads them"
    )
    enough = np.mean(said == y) >= 0.97
    print(f"Of 360 such digits it reads at least 97 % right: {enough}")
