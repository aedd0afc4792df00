"""Checks of lesson 5, in its order: the stream, the step, checkpoints, whole runs."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import functools
import inspect
import io
import itertools
import json
import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.interpreters import mlir
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from orbax.checkpoint.args import (
    Composite,
    JsonRestore,
    JsonSave,
    StandardRestore,
    StandardSave,
)

from coursekit import reference_checks, tracing
from coursekit.checks import hidden, visible
from coursekit.expect import (
    MAX_NUMBERS,
    expect,
    expect_close,
    expect_entries,
    expect_error,
    expect_result,
    expect_shapes,
    expect_unchanged,
)
from coursekit.expect_program import (
    USES,
    expect_arrays,
    expect_collectives,
    expect_dtypes,
    expect_layout,
    expect_moved,
)
from coursekit.hidden_cases import Case
from coursekit.learner import (
    abstract,
    batches,
    config_of,
    digits_loss,
    epoch_order,
    first_state,
    fit,
    init_params,
    layout_of,
    make_mesh,
    make_optimizer,
    make_sgd,
    make_task,
    make_train_step,
    microbatches_of,
    mixed_precision_loss,
    most_kept,
    one_f_one_b,
    open_manager,
    pipeline_forward,
    place,
    restore_elsewhere,
    restore_state,
    run_fit,
    run_layers,
    save_state,
    settings_of,
    updated,
)
from coursekit.observation import Observation, leaves, plain, same
from coursekit.observe import num_compiles, observe, shards
from coursekit.outcomes import Raised, statement
from coursekit.processes import run_script
from coursekit.reference_checks import (
    compare_layout,
    expect_like_solution,
    expect_own_share,
)
from coursekit.references import reference_clip, reference_norm, reference_perceptron
from coursekit.script import write_script
from coursekit.traced_program import EVERY_DEVICE, ONE_DEVICE, TracedProgram

PAIRS = [[0, 1], [2, 3], [4, 5], [6, 7]]  # a mesh of 4 x 2 devices


def mesh_of(devices, names):  # of these devices, or of so many of the first
    devices = range(devices) if isinstance(devices, int) else devices
    return jax.sharding.Mesh(np.array(jax.devices())[np.array(devices)], names)


def expect_among(seen, entries, *, mistakes=None, **options):  # of a dict's entries
    expect_entries(seen, {})
    others = {cause: seen.value | part for cause, part in (mistakes or {}).items()}
    expect_close(seen, seen.value | entries, mistakes=others, **options)


# What a run leaves, its files, is what is judged. They are made and read by a process
# in which no code of the learner's has run: observe(..., clean=True).


def packed(folder):
    archive = shutil.make_archive(f"{tempfile.mkdtemp()}/files", "zip", folder)
    return Path(archive).read_bytes()


def unpacked(files):  # a folder with them, and nothing outside of it
    folder = tempfile.mkdtemp()
    with zipfile.ZipFile(io.BytesIO(files)) as archive:
        archive.extractall(folder)
    return folder


def made(maker, *arguments):  # by our own code: it must not fail
    seen = observe(maker, *arguments, clean=True)
    if seen.error:
        raise RuntimeError(f"{seen.call}: {seen.error.text}")
    return seen.value


def drawn(*numbers):  # random numbers of this class
    return np.random.default_rng([reference_checks.seed, *numbers])


def drawn_name(rng):  # that no constant text holds
    return "".join(rng.choice([*"bcdfghjk"], 6))


def drawn_steps(rng, count):  # of three digits, ascending
    return sorted(rng.choice(range(100, 1000), count, replace=False).tolist())


def numbers_in(text):  # as texts; none, if any number would be among so many
    found = {*re.findall(r"\d+", text)}
    return found if len(found) <= MAX_NUMBERS else set()


# Exercise 5.1


def take_batches(data, size, seed, start, count, devices, names, spec):
    sharding = NamedSharding(mesh_of(devices, names), P(*spec))
    stream = batches(data, size, sharding, seed, start)
    return {f"batch {start + k}": next(stream) for k in range(count)}


def two_streams(data, others, seeds, batch_size, count):  # taken from by turns
    by_rows, (seed, other) = NamedSharding(make_mesh(2), P("data")), seeds
    one = batches(data, batch_size, by_rows, seed, 0)
    two = batches(others, batch_size, by_rows, other, 0)
    return [(next(one), next(two)) for _ in range(count)]


def batches_on_devices(data, batch_size, start_step, count):  # at each next(), by array
    shapes = [(batch_size, *array.shape[1:]) for array in data]
    others = jax.live_arrays()  # kept here, so that none of these goes meanwhile
    known, by_rows = {id(one) for one in others}, NamedSharding(make_mesh(8), P("data"))
    stream, found = batches(data, batch_size, by_rows, 0, start_step), []
    for _ in range(count):
        _here = next(stream)
        new = [one.shape for one in jax.live_arrays() if id(one) not in known]
        found.append([new.count(shape) for shape in shapes])
    return found


def orders_asked(num_rows, batch_size, starts):  # how many, for a first batch of each
    names, counts = getattr(inspect.unwrap(batches), "__globals__", {}), []
    data, whole = numbered(num_rows), NamedSharding(make_mesh(1), P())
    for start in starts:
        order = mock.Mock(side_effect=epoch_order)
        with mock.patch.dict(names, epoch_order=order):
            next(batches(data, batch_size, whole, 0, start))
        counts.append(order.call_count)
    return counts


def expect_no_walk(seen):
    expect_result(seen)
    near, far = seen.value
    headline = "A later first batch asks for more orders of epochs."
    rows = {"seen": f"{far} orders for batch 499, {near} for batch 49"}
    expect(seen, far <= near, headline, **rows, expected="as many for both")


def expect_one_ahead(seen):
    expect_result(seen)
    fewest = np.min(seen.value)
    headline = f"When next() returned, {fewest} batch was on the devices."
    late = "the next batch is placed when it is asked for, not before the yield"
    rows = {"expected": "this one and the next", "causes": {late: lambda s: True}}
    expect(seen, fewest >= 2, headline, **rows)


def numbered(num_rows, *shape):  # x: every row holds its number; y: the number
    y = np.arange(num_rows, dtype=np.int32)
    rows = y.reshape(-1, *[1] * len(shape))
    return np.broadcast_to(rows, (num_rows, *shape)).astype(np.float32), y


def endless_line(seed, num_epochs, num_rows):  # as the lesson says
    orders = [epoch_order(seed, epoch, num_rows) for epoch in range(num_epochs)]
    return np.concatenate(orders)


def cut(data, batch_size, line, first, count):  # batches from rows in a line
    found = {}
    for k in range(first, first + count):
        rows = line[k * batch_size : (k + 1) * batch_size]
        found[f"batch {k}"] = tuple(array[rows] for array in data)
    return found


def mistaken_batches(data, batch_size, seed, first, count):  # by cause
    size, kept = len(data[0]), len(data[0]) // batch_size * batch_size
    orders, start = endless_line(seed, 9, size), first * batch_size
    lines = {
        "every epoch has the order of the first": np.tile(orders[:size], 9),
        "the rest of an epoch is dropped": orders.reshape(9, size)[:, :kept].ravel(),
        "rows come in the order of the file": np.arange(9 * size) % size,
        "the orders are those of seed 0": endless_line(0, 9, size),
    }
    begins = {
        "these are the batches from number 0 on": 0,
        f"the batches begin at row {first}, not at batch {first}": first,
        "the epoch begins again: rows come twice": start // size * size,
    }
    for cause, row in begins.items() if first else ():
        lines[cause] = np.r_[orders[:start], orders[row:]]
    return {
        cause: cut(data, batch_size, line, first, count)
        for cause, line in lines.items()
    }


@visible(
    "batches",
    points=3,
    essential=["right rows", "sharded as asked"],
    others=[
        "prefetching",
        "starts anywhere",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_batches():
    data = numbered(20, 7)
    for first, count, *to in (
        (0, 7, [*range(8)], ["data"], ["data"]),
        (4, 2, PAIRS, ["i", "j"], ["j"]),
    ):
        devices, names, spec = to
        seen = observe(take_batches, data, 8, 3, first, count, *to)
        wanted = cut(data, 8, endless_line(3, 4, 20), first, count)
        others = mistaken_batches(data, 8, 3, first, count)
        with statement("right rows"):
            expect_close(seen, wanted, mistakes=others)
        where = {"x": (f'["batch {first}"][0]', spec)}
        others = {"each device holds all rows: place(array, sharding) splits them": []}
        with statement("sharded as asked"):
            expect_layout(seen, where, np.shape(devices), names, mistakes=others)
    seen = observe(batches_on_devices, (data[0], data[0][:, :5]), 8, 0, 3)
    with statement("prefetching"):
        expect_one_ahead(seen)
    seen = observe(orders_asked, 20, 8, [49, 499])  # both begin at the same row of one
    with statement("starts anywhere"):
        expect_no_walk(seen)


@hidden("batches")
def cases_of_batches():
    def cases(rng):
        row, ij = ["rows"], ["i", "j"]

        def data(size, *kinds):
            found = (rng.uniform(0, 120, (size, *shape)) for shape, _ in kinds)
            return tuple(
                x.astype(kind[1]) for x, kind in zip(found, kinds, strict=True)
            )

        one, two = [((), "int8")], [((3,), "int32"), ((), "float32")]
        three = ((2, 3), "float16"), ((5,), "uint8"), ((), "int32")
        yield Case(data(1, *one), 1, 0, 5, 3, [5], row, row)
        yield Case(data(7, *three), 6, 11, 3, 3, [2, 1, 0], row, row)
        yield Case(data(7, *three), 6, 11, 3, 3, [2, 1, 0], row, row)
        yield Case(data(5, *two), 24, 2, 400, 2, PAIRS, ij, [("i", "j")])
        yield Case(data(13, *two), 6, 123456, 1, 3, PAIRS[2:], ij, ["j"])
        yield Case(data(6, *two), 5, 3, 2, 2, [0, 1], row, [])
        yield Case(data(1000, *one), 8, 4, 3_000_124, 2, [1, 0], row, row)  # far along

    def streams(rng):
        def data(size):
            return tuple(rng.normal(size=(size, 3)).astype("f") for _ in "ab")

        yield Case(data(5), data(5), [1, 2], 4, 4)
        yield Case(data(5), data(7), [3, 3], 4, 4)  # one seed, more rows
        yield Case(data(7), data(6), [4, 4], 4, 4)

    free = {"collectives sent arrays compiles": "nothing is said of programs"}
    free |= {"error": "it raises none"}
    expect_like_solution(
        take_batches,
        cases,
        value="right rows",
        layout="sharded as asked",
        arguments="arguments stay",
        free=free,
    )
    what = "nothing is remembered"
    free |= {"layout arguments": "compared above"}
    expect_like_solution(two_streams, streams, scales=(), value=what, free=free)
    x, _ = numbered(20, 7)
    seen = observe(batches_on_devices, (x, x[:, :3]), 40, 3, 8)
    with statement("prefetching"):
        expect_one_ahead(seen)


# Exercise 5.2


class Loss:  # of other parameters and batches
    def line(w, x, y):
        return ((x @ w - y) ** 2).mean()

    def cubes(w, x, y):
        return (jnp.abs(x @ w + y) ** 3).mean()

    def center(params, x):
        return jnp.cosh(x - params[0]).sum(1).mean()

    def layers(params, x, y, importance):
        for w, b in params["layers"]:
            x = jax.nn.gelu(x @ w + b)
        loss = importance * jnp.abs(x.sum(1) - y) ** 1.5
        return loss.mean() + params["more"] ** 2


@functools.cache  # the same object in each call, as `Loss` gives the same functions
def optimizer_of(name):
    if name == "adamw":
        return optax.adamw(0.05, weight_decay=0.1)
    return {"sgd": lambda: optax.sgd(0.3), "make_sgd": make_sgd}[name]()


def prepared(loss, optimizer, params, batch, num_microbatches, devices):
    mesh, optimizer = mesh_of(devices, ("data",)), optimizer_of(optimizer)
    loss_fn = getattr(Loss, loss, digits_loss)
    step = make_train_step(loss_fn, optimizer, mesh, num_microbatches)
    state = {"params": params, "opt_state": optimizer.init(params)}
    state = jax.device_put(jax.tree.map(jnp.array, state), NamedSharding(mesh, P()))
    return step, state, jax.device_put(batch, NamedSharding(mesh, P("data")))


def one_step(*arguments):  # traced, too
    step, state, batch = prepared(*arguments)
    state, metrics = step(state, batch)
    return {"params": state["params"], "metrics": [metrics]}


def split_in(data, num_steps):  # a batch for each
    return [tuple(array[k::num_steps] for array in data) for k in range(num_steps)]


def train(loss, optimizer, params, data, num_microbatches, devices, num_steps):
    batches_of = split_in(data, num_steps)
    first = loss, optimizer, params, batches_of[0], num_microbatches, devices
    step, old, batch = prepared(*first)
    state, history, compiled = old, [], []
    for rows in batches_of:
        batch = jax.device_put(rows, batch[0].sharding)
        state, metrics = step(state, batch)
        history.append({name: np.asarray(value) for name, value in metrics.items()})
        compiled.append(num_compiles())
    gone = [leaf.is_deleted() for leaf in jax.tree.leaves(old)]
    gone = all(gone) and tracing.num_donated(step, state, batch) == len(gone)
    there = not any(leaf.is_deleted() for leaf in batch)
    facts = {"gone": gone, "again": compiled[-1] - compiled[1], "batch stays": there}
    return facts | state | {"metrics": history}


def trained_state(*arguments):
    found = train(*arguments)
    return {name: found[name] for name in ("params", "opt_state")}


def training_metrics(*arguments):
    return train(*arguments)["metrics"]


def expect_donated(seen):
    expect_result(seen)
    headline = "The step's program does not donate the whole old state."
    expect(seen, seen.value["gone"], headline)


def maps_of(*arguments):  # of a step: whether it has a shard_map, which tracks
    text = str(tracing.program_steps(*prepared(*arguments)))
    return {"shard_map": "shard_map[" in text, "tracks": "check_vma=True" in text}


def operations_outside(*arguments):  # of a step, outside of what jax.jit compiles
    lines = tracing.program_steps(*prepared(*arguments)).eqns
    return sorted({one.primitive.name for one in lines} - {"jit", "pjit"})


def expect_one_program(seen):
    expect_result(seen)
    expect(seen, not seen.value["again"], "Later steps compiled a program again.")


def expect_batch(seen):
    expect_result(seen)
    expect(seen, seen.value["batch stays"], "The batch was donated or deleted.")


def reference(params, batches_of, times=1, losses=1):  # times: too large
    history, speed = [], dict.fromkeys(params, 0)
    for x, y in batches_of:
        loss, grads = reference_perceptron(params, x, y)
        grads = {name: times * g for name, g in grads.items()}
        norm, clipped = reference_norm(grads), reference_clip(grads, 1)
        history.append({"loss": losses * loss, "grad_norm": norm})
        speed = {name: 0.9 * speed[name] + g for name, g in clipped.items()}
        params = {name: params[name] - 0.1 * speed[name] for name in params}
    return {"params": params, "metrics": history}


TRACKED = (
    "shard_map tracks what differs, and has summed the gradients in the loop already:"
    " check_vma=False, or jax.lax.pcast before you differentiate"
)
SUMMED = "the gradient is 8 times too large: pmean averages over devices"


def mistaken_steps(params, x, y, eightfold):  # by cause: 8 devices, 4 microbatches
    case, own = (params, [(x, y)]), (params, [(x[:12], y[:12])])
    found = {
        "a device steps on its own rows: pmean is missing": own,
        eightfold: (*case, 8),
        "gradient and loss are 8 times too large: pmean averages": (*case, 8, 8),
        "the microbatches' gradients are added up, not averaged": (*case, 4),
        "the microbatches' means are added up, not averaged": (*case, 4, 4),
    }
    found = {cause: reference(*one) for cause, one in found.items()}
    rows = zip(*microbatches_of((x, y), 32), strict=True)
    losses = np.array([reference_perceptron(params, *piece)[0] for piece in rows])
    rows = zip(*microbatches_of((x, y), 8), strict=True)
    norms = [reference_norm(reference_perceptron(params, *own)[1]) for own in rows]
    right = reference(*case)
    for cause, name, wrong in (
        ("grad_norm is that of one device's gradient", "grad_norm", norms[0]),
        ("the devices' norms are averaged, not their gradients", "grad_norm", norms),
        ("grad_norm is that of the clipped gradient", "grad_norm", np.float64(1)),
        ("the loss is one device's: pmean is missing", "loss", losses[:4].mean()),
        ("the loss is that of the last microbatch", "loss", losses[3::4].mean()),
    ):
        metrics = right["metrics"][0] | {name: np.mean(wrong)}
        found[cause] = right | {"metrics": [metrics]}
    return found


def digits(seed, num_rows, width=16, scale=1):  # made-up images
    rng = np.random.default_rng(seed)
    x = np.float32(scale * rng.normal(size=(num_rows, 64)))
    params = jax.tree.map(np.asarray, init_params(jax.random.key(seed), width))
    for b in ("b1", "b2"):
        params[b] = np.float32(rng.normal(size=params[b].shape) / 2)
    return params, x, np.int32(rng.integers(0, 10, num_rows))


@visible(
    "make_train_step",
    points=4,
    essential=["same numbers", "microbatches", "one sync"],
    others=[
        "metrics",
        "donated",
        "no recompilation",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_make_train_step():
    params, x, y = digits(1, 96, scale=4)
    case = "digits_loss", "make_sgd", params, (x, y), 4, 8
    seen, maps = observe(one_step, *case, compiled=True), observe(maps_of, *case)
    wanted, maps = reference(params, [(x, y)]), maps.value or {}
    once = 4 * (1 + sum(leaf.size for leaf in params.values())) * 2 * 7 / 8
    moved = sum(one.bytes_moved for one in seen.collectives or ())  # in rings
    eightfold = TRACKED if maps.get("tracks") and moved > 1.5 * once else SUMMED
    others = mistaken_steps(params, x, y, eightfold)
    close = {"rtol": 1e-3, "atol": 1e-5}
    for name, part in (
        ("same numbers", "params"),
        ("metrics", "metrics"),
    ):
        mistakes = {cause: {part: other[part]} for cause, other in others.items()}
        with statement(name):
            expect_among(seen, {part: wanted[part]}, mistakes=mistakes, **close)
    by_jit = {
        "under plain jit the compiler splits the loop and places the sync: shard_map"
        " leaves both to you": lambda s: maps and not maps["shard_map"]
    }
    by_metrics = {  # of mistakes in gradients: the first five
        cause: lambda _, like=other["metrics"][0]: all(
            np.isclose(seen.value["metrics"][0][name], like[name], rtol=1e-3)
            for name in like
        )
        for cause, other in [*others.items()][:5]
    }
    tracked = {cause: by_metrics[cause] for cause in by_metrics if cause == TRACKED}
    with statement("one sync"):
        expect_collectives(seen, in_loop=False, causes=by_jit | tracked)
        rows = 'each device takes its own rows: in_specs=(P(), P("data"))'
        causes = {rows: lambda s: (12, 64) in [one.shape for one in s.collectives]}
        expect_moved(seen, at_most=1.01 * once, causes=causes | tracked)
    at_once = by_jit | {
        "a device takes all its 12 rows at once": lambda s: (12, 16) in s.array_shapes
    }
    with statement("microbatches"):
        for shape in ((12, 16), (4, 3, 16)):
            expect_arrays(seen, never=shape, causes=at_once)
    data, case = (x / 8, y), ("digits_loss", "make_sgd")  # too small to be clipped
    steps = observe(train, *case, params, data, 2, 8, 3)
    with statement("same numbers"):
        wanted = {"params": reference(params, split_in(data, 3))["params"]}
        expect_among(steps, wanted, causes=by_metrics, **close)
    with statement("same numbers"):
        where = {name: (f'["params"]["{name}"]', []) for name in params}
        expect_layout(steps, where, [8], ["data"])
    with statement("donated"):
        expect_donated(steps)
    with statement("no recompilation"):
        expect_one_program(steps)
    with statement("arguments stay"):
        expect_batch(steps)
    seen = observe(operations_outside, *case, params, data, 2, 8)
    with statement("no recompilation"):
        expect_result(seen)
        outside = ", ".join(seen.value)
        headline = "Parts of the step run outside of jax.jit."
        expect(seen, not outside, headline, seen=outside)


@hidden("make_train_step")
def cases_of_make_train_step():
    close = {"rtol": 1e-3, "atol": 1e-5}

    def normal(rng, *shape):
        return np.float32(rng.normal(size=shape))

    def layers(rng):
        params = {"more": np.float32(0.7)}
        params["layers"] = [
            (normal(rng, *shape), normal(rng, shape[1])) for shape in ((3, 6), (6, 2))
        ]
        rows = normal(rng, 54, 3), 9 * normal(rng, 54), normal(rng, 54) ** 2
        return "layers", "adamw", params, rows, 3, [6, 2], 3

    def cases(rng):
        line = normal(rng, 5), (normal(rng, 12, 5), normal(rng, 12)), 2, [4], 2
        yield Case("line", "sgd", *line, **close)
        other, stays = (*line[:3], [5], 2), {"statements": "nothing is remembered"}
        yield Case("cubes", "sgd", *line, **close, **stays)
        yield Case("line", "adamw", *line, **close, **stays)
        yield Case("line", "sgd", *other, **close, **stays)
        nothing = jax.tree.map(np.zeros_like, line[:2])
        yield Case("line", "sgd", *nothing, *line[2:], **close)
        yield Case(*layers(rng), rtol=1e-3, atol=1e-4)
        params, rows = (normal(rng, 4),), (normal(rng, 24, 4),)
        yield Case("center", "make_sgd", params, rows, 1, 8, 3, **close)

    def metrics(rng):
        line = normal(rng, 5), (normal(rng, 12, 5), normal(rng, 12)), 3, [4, 1], 2
        yield Case("line", "sgd", *line, **close)

    def programs(rng):
        b, x, y = (normal(rng, *shape) for shape in ((2,), (192, 2), (192,)))
        yield Case("line", "sgd", b, (x, y), 4, 2, **close)

    free = {"error": "it raises none", "compiles": "counted below"}
    free |= {"collectives": "one all-reduce of all gradients, or one of each"}
    free |= {"arguments": "see train"}
    expect_like_solution(
        trained_state,
        cases,
        value="same numbers",
        layout="same numbers",
        memory="nothing is remembered",
        free=free | {"sent arrays": "compared below"},
        scales=(),  # they are cases
    )
    expect_like_solution(
        one_step,
        programs,
        compiled=True,
        sent="one sync",
        arrays="microbatches",
        free=free | {"value layout": "compared above"},
        scales=(),
    )
    expect_like_solution(
        training_metrics,
        metrics,
        value="metrics",
        free=free | {"layout sent arrays": "compared above"},
        scales=(),
    )
    seen = observe(train, *layers(np.random.default_rng(0)))
    with statement("donated"):
        expect_donated(seen)
    with statement("no recompilation"):
        expect_one_program(seen)
    with statement("arguments stay"):
        expect_batch(seen)


# Exercise 5.3


def mixed(params, x, y):
    return jax.jit(mixed_precision_loss)(params, x, y)


def mixed_grads(params, x, y):
    return jax.jit(jax.grad(mixed_precision_loss))(params, x, y)


def expect_products(seen, params, loss):  # by both weights, in bfloat16
    f32 = ("f32",)
    causes = {
        "a product gets a float32 factor": lambda s: "bf16" in s.dtypes["matmul"],
        "factors are rounded, and then multiplied in float32: both of a product must be"
        " bfloat16": lambda s: (
            s.dtypes["matmul"] == f32 and abs(s.value - loss) > 1e-5 * loss
        ),
        "nothing is cast to bfloat16": lambda s: s.dtypes["matmul"] == f32,
    }
    expect_dtypes(seen, matmul="bf16", causes=causes)
    for name in ("w1", "w2"):
        shapes = {params[name].shape, params[name].shape[::-1]}
        headline = f"No matrix product multiplies by {name}."
        is_there = bool(shapes & {*seen.multiplied})
        expect(seen, is_there, headline, expected="two matrix products")


def has_few_digits(loss):  # no more than a bfloat16
    return loss.astype(jnp.bfloat16).astype(np.float32) == loss


@visible(
    "mixed_precision_loss",
    points=2,
    essential=["same loss", "bfloat16 products", "float32 gradients"],
    others=["float32 from the logits on", "arguments stay", "nothing is remembered"],
)
def examples_of_mixed_precision_loss():
    params, x, y = digits(3, 24, 40)
    loss, grads = reference_perceptron(params, x, y)
    seen = observe(mixed, params, x, y, traced=True)
    scaled = {"the loss is still scaled": 1024 * loss}
    with statement("same loss"):
        expect_close(seen, loss, rtol=0.02, atol=0, mistakes=scaled)
    with statement("bfloat16 products"):
        expect_products(seen, params, loss)
    low = {"the softmax gets bfloat16 logits": lambda s: s.dtypes["exp"] == ("bf16",)}
    with statement("float32 from the logits on"):
        expect_dtypes(seen, exp="f32", sum="f32", causes=low)
        expect_shapes(seen, np.float32(0))
        few = has_few_digits(seen.value)
        expect(seen, not few, "The loss has no more digits than a bfloat16.")
    seen = observe(mixed_grads, params, x, y, traced=True)
    with statement("float32 gradients"):
        expect_close(seen, grads, rtol=0.1, atol=0.01)
    back = {
        "the loss's own products are bfloat16, its gradient's are not": lambda s: True
    }
    with statement("bfloat16 products"):
        expect_dtypes(seen, matmul="bf16", causes=back)


@hidden("mixed_precision_loss")
def cases_of_mixed_precision_loss():
    close = {"rtol": 1e-5, "atol": 1e-6}

    def exact(rng, num_rows, width, scale):  # what bfloat16 holds, up to the logits
        shapes = (num_rows, 64), (64, width)
        x, w1 = (np.float32(rng.choice([-8, 8], shape)) for shape in shapes)
        b1, w2, b2 = (
            np.float32(rng.integers(-4, 5, size=shape))
            for shape in (width, (width, 10), 10)
        )
        params = {"w1": w1, "b1": 512 * b1, "w2": w2 * scale / 8, "b2": b2 * scale}
        return params, x, np.int32(rng.integers(0, 10, num_rows))

    def losses(rng):
        yield Case(*exact(rng, 1, 33, 2**17), rtol=0.05, atol=1e-6)
        for what in (), "nothing is remembered":  # of equal shapes
            yield Case(*exact(rng, 7, 16, 1), rtol=0.05, atol=1e-6, statements=what)
        yield Case(*digits(6, 7, 16, scale=20), rtol=0.05, atol=0)

    def digits_kept(rng):
        for num_rows, width, scale in ((1, 33, 1), (7, 16, 1), (7, 16, 2**17)):
            yield Case(*exact(rng, num_rows, width, scale), **close)

    def eager(rng):  # of equal shapes, and no NumPy products
        params, x, y = exact(rng, 7, 16, 1)
        # A logit of 256 is a bfloat16, its difference to 1.5 is none: an odd number of
        # sixteenths is lost, seven times, so that the errors cannot cancel.
        params["w2"][:, 0], params["b2"] = 0, params["b2"] + np.float32(1 / 16)
        params["b2"][0] = 256
        case, other = jax.tree.map(jnp.asarray, ((params, x, y % 9 + 1), digits(8, 7)))
        yield Case(*case, **close)
        yield Case(*other, rtol=0.05, atol=0, statements="nothing is remembered")

    def of_numpy(rng):
        yield Case(*digits(9, 6), **close)

    def equal_logits(rng):  # of weights that differ, but not in bfloat16
        params, x, y = exact(rng, 7, 16, 0)
        params["w1"][:, 8:], params["b1"][8:] = params["w1"][:, :8], params["b1"][:8]
        params["w2"] = 1024 + np.float32(rng.choice([-1, 1], (16, 10)))
        params["w2"][8:] *= -1
        yield Case(params, x, y, rtol=0.05, atol=0)

    free = {"error": "it raises none", "layout compiles": "of a single number"}
    free |= {"collectives sent arrays": "on one device"}
    stay = {"arguments": "arguments stay", "scales": ()}  # other scales are cases
    stay["memory"] = "nothing is remembered"
    expect_like_solution(mixed, losses, value="same loss", **stay, free=free)
    what = "float32 from the logits on"
    expect_like_solution(mixed, digits_kept, value=what, **stay, free=free)
    products = "bfloat16 products"
    expect_like_solution(mixed, equal_logits, value=products, **stay, free=free)
    # One operation at a time: compiled, several may be computed in float32.
    expect_like_solution(mixed_precision_loss, eager, value=what, **stay, free=free)
    products = {"value": "NumPy may round its products otherwise"}
    expect_like_solution(mixed_precision_loss, of_numpy, **stay, free=free | products)
    params, x, y = digits(4, 5, 7)
    seen = observe(mixed, params, x, y, traced=True)
    loss, _ = reference_perceptron(params, x, y)
    with statement("same loss"):
        expect_close(seen, loss, rtol=0.02, atol=0)
    with statement("bfloat16 products"):
        expect_products(seen, params, loss)
    with statement("float32 from the logits on"):
        expect_dtypes(seen, exp="f32", sum="f32")


# Exercise 5.4


def run_settings(**more):
    return {"run": {"layers": [2, 3], "heads": 4}, "rate": 0.1, "limit": None} | more


def state_of(kind, devices, seed):  # a tree of arrays on devices, random numbers
    rng, mesh = np.random.default_rng(seed), mesh_of(devices, ("data",))

    def array(*shape, to="float32"):
        return jnp.asarray(30 * rng.normal(size=shape)).astype(to)

    if kind == "lists":
        tree = [array(24, 2, to="bfloat16"), {"deep": (array(), [array(to="int8")])}]
    else:
        params = {"w": array(24, 3), "b": array(24)}
        opt_state = jax.tree.map(lambda a: a + seed, optax.adam(0.1).init(params))
        tree = {"params": params, "opt_state": opt_state, "key": jax.random.key(seed)}
    whole, rows = (NamedSharding(mesh, spec) for spec in (P(), P("data")))
    layouts = jax.tree.map(lambda a: rows if a.ndim > 1 else whole, tree)
    return jax.device_put(tree, layouts)


def unlike(state, fresh):  # in what a restored state differs
    types, wanted = (str(jax.tree.map(jax.typeof, tree)) for tree in (state, fresh))
    laid = all(
        isinstance(a, jax.Array) and a.sharding.is_equivalent_to(b.sharding, b.ndim)
        for a, b in zip(*map(jax.tree.leaves, (state, fresh)), strict=False)
    )
    return "structure or dtypes" if types != wanted else "" if laid else "layout"


def lost_entries(found, wanted):  # names of what has other values than were saved
    trees = (x if isinstance(x, dict) else {"the state": x} for x in (found, wanted))
    found, wanted = (plain(tree) for tree in trees)
    return [name for name in wanted if not same(found.get(name), wanted[name])]


def is_any_deleted(tree):
    return any(leaf.is_deleted() for leaf in jax.tree.leaves(tree))


def damage(directory, step, item):  # overwrites an item's files
    for path in Path(directory, f"{step}", item).rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")


def files_in(directory):  # byte for byte
    found = {}
    for path in sorted(Path(directory).rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        found[f"{path.relative_to(directory)}"] = content
    return found


def changed_files(directory, before):  # by names
    after = files_in(directory)
    names = sorted({*before, *after})
    return [name for name in names if before.get(name) != after.get(name)]


def save_by_orbax(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def checkpoints_of(kind, seeds, devices):  # and half of a newer one
    directory = f"{tempfile.mkdtemp()}/run"
    with open_manager(directory, 9) as manager:
        for step, seed in seeds.items():
            state, facts = state_of(kind, devices, seed), run_settings(position=step)
            save_by_orbax(manager, step, state, facts)
    for path in Path(directory).rglob("_sharding"):  # of another machine's devices
        text = path.read_text(encoding="utf-8")
        text = re.sub(r'(\\"id\\": )(\d+)', r"\g<1>10\2", text)
        path.write_text(text, encoding="utf-8")
    Path(directory, f"{max(seeds) + 1}.orbax-checkpoint-tmp").mkdir()
    return packed(directory)


def go_on(files, kind, devices, stop, seed, keep, by_shapes):  # from these to `stop`
    directory = unpacked(files) if files else f"{tempfile.mkdtemp()}/run"
    with open_manager(directory, keep) as manager:
        fresh = state_of(kind, devices, 0)
        settings = run_settings(run={"heads": 4, "layers": [2, 3]})  # the same
        like = abstract(fresh) if by_shapes else fresh
        step, state, facts = restore_state(manager, like, settings)
        found = {"state": plain(state), "facts": facts, "unlike": unlike(state, fresh)}
        now = state_of(kind, devices, seed)
        save_state(manager, stop, now, run_settings(position=stop))
        manager.wait_until_finished()
        again = restore_state(manager, fresh, run_settings())[0]
    return found | {"began": [step, again], "files": packed(directory)}


def newest(folder, fresh):  # step, state and facts, as our own code reads them
    with open_manager(folder, 9) as manager:
        step = manager.latest_step()
        wanted = Composite(state=StandardRestore(abstract(fresh)), facts=JsonRestore())
        found = manager.restore(step, args=wanted)
    return step, found.state, found.facts


def newest_checkpoint(files, kind, devices):  # what it holds
    folder = unpacked(files)
    step, state, facts = newest(folder, state_of(kind, devices, 0))
    items = sorted(filter(str.isalpha, os.listdir(f"{folder}/{step}")))
    return {"began": [step], "state": state, "facts": facts, "items": items}


def gone_on(kind, steps, saved_on, devices, stop, keep=2, by_shapes=False):
    """Lets a run go on from `steps` to `stop`: what it did, its checkpoint, all states.

    The learner's process is not told how the states that it restores were drawn.
    """
    rng = drawn(stop)
    seeds = {step: int(rng.integers(2**31)) for step in (*steps, stop)}
    states = {n: plain(state_of(kind, devices, s)) for n, s in ({0: 0} | seeds).items()}
    seed, files = seeds.pop(stop), None
    if seeds:
        files = made(checkpoints_of, kind, seeds, saved_on)
    seen = observe(go_on, files, kind, devices, stop, seed, keep, by_shapes)
    files = seen.value["files"] if isinstance(seen.value, dict) else None
    return seen, observe(newest_checkpoint, files, kind, devices, clean=True), states


def expect_back(seen, states):  # the values that were saved
    expect_entries(seen, {})
    step, items = seen.value["began"][0], seen.value.get("items", ["facts", "state"])
    lost = lost_entries(seen.value["state"], states.get(step, states[0]))
    facts = run_settings(position=step) if step else {}
    lost += ["facts"] * (seen.value["facts"] != facts)
    headline = f"Not as it was saved: {', '.join(lost)}."
    expect(seen, not lost, headline, expected="the values that were saved")
    headline = f"A checkpoint holds {' and '.join(items)}."
    expect(seen, items == ["facts", "state"], headline, expected="facts and state")


def expect_began(seen, began):
    expect_entries(seen, {})
    found, wanted = (
        ", ".join(map(str, steps)) for steps in (seen.value["began"], began)
    )
    headline = f"Started again and again, it began at steps {found}."
    expect(seen, found == wanted, headline, expected=f"steps {wanted}")


def expect_like_fresh(seen, steps):  # of checkpoints that were there before
    if steps and seen.error and seen.error.kinds[0] == "RuntimeError":
        far = "another machine has saved this checkpoint: its devices are not here"
        rows = {"called": seen.call, "where": "\n".join(seen.error.trace)}
        raise Raised(seen.error.text, seen_in=seen, likely=far, **rows)
    expect_result(seen)
    headline = f"Not like that of fresh: the state's {seen.value['unlike']}."
    expect(seen, not seen.value["unlike"], headline)


def deleted_arguments(kind, devices):
    with open_manager(f"{tempfile.mkdtemp()}/run") as manager:
        state, fresh = (state_of(kind, devices, seed) for seed in (1, 0))
        save_state(manager, 1, state, run_settings())
        manager.wait_until_finished()
        restore_state(manager, fresh, run_settings())
    trees = {"the saved state": state, "fresh": fresh}
    return [name for name, tree in trees.items() if is_any_deleted(tree)]


def expect_not_deleted(seen):
    expect_result(seen)
    headline = f"Donated or deleted: {' and '.join(seen.value or ())}."
    expect(seen, seen.value == [], headline)


def other_run(facts, settings, older=()):  # raises as restore_state, if no file changes
    directory, state = f"{tempfile.mkdtemp()}/run", state_of("optimizer", 8, 1)
    with open_manager(directory, 9) as manager:
        for step in older:
            save_by_orbax(manager, step, state, settings)
        save_by_orbax(manager, 9, state | {"more": state["key"]}, facts)
    before = files_in(directory)
    with open_manager(directory, 9) as manager:
        try:
            return restore_state(manager, state_of("optimizer", 8, 0), settings)[0]
        finally:
            if changed := changed_files(directory, before):
                raise OSError(f"{changed[0]} and other files have changed")


def waits_of_save(step):  # how often save_state waits once the saving has begun
    with open_manager(f"{tempfile.mkdtemp()}/run") as manager:
        save, wait, begun, waits = manager.save, manager.wait_until_finished, [], []
        manager.save = lambda *a, **more: begun.append(save(*a, **more)) or begun[-1]
        manager.wait_until_finished = lambda: waits.extend(begun) or wait()
        save_state(manager, step, state_of("lists", 8, step), run_settings())
        return len(waits)


def expect_no_waiting(seen):
    expect_result(seen)
    headline = "save_state waits until the checkpoint is written."
    expect(seen, seen.value == 0, headline)


def fail_from(manager, step, kind, first):  # its reading, from the `first` time on
    restore, times, raised = manager.restore, [], []

    def reading(number=None, *arguments, **options):
        number = manager.latest_step() if number is None else number
        times.extend([number] * (int(number) == step))
        if int(number) == step and len(times) >= first:
            raised.append(number)
            raise getattr(builtins, kind)
        return restore(number, *arguments, **options)

    manager.restore = reading
    return raised


def restored_from(steps, bad, failure, wanted=None):  # what it does, as a dict
    directory = f"{tempfile.mkdtemp()}/run"
    with open_manager(directory, 9) as manager:
        for step in steps:
            state, facts = state_of("lists", 2, step), run_settings(position=step)
            save_by_orbax(manager, step, state, facts)
    if is_damaged := failure in ("facts", "state"):
        damage(directory, bad, failure)
    before, fresh = files_in(directory), state_of("lists", 2, 0)
    found = {"began": None, "raised": [], "says": "", "has reason": False}
    chosen = {} if wanted is None else {"step": wanted}
    with open_manager(directory, 9) as manager:
        failed = is_damaged or fail_from(manager, bad, *failure)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                restored = restore_state(manager, fresh, run_settings(), **chosen)
            step, state, facts = restored
            lost = lost_entries(state, state_of("lists", 2, step))
            lost += ["facts"] * (facts != run_settings(position=step))
            found |= {"began": step, "lost": lost}
        except NotImplementedError:
            raise
        except Exception as error:
            found["raised"] = [one.__name__ for one in type(error).__mro__]
            found["says"] = str(error)
            found["has reason"] = bool(error.__cause__)
    changed = changed_files(directory, before)
    found |= {"changed": changed, "failed": bool(failed)}
    return found | {"printed": printed.getvalue()}


def try_to_stop(seen, step):
    with statement("stops if unreadable"):
        expect_result(seen)
        if not seen.value["failed"]:
            return  # it reads in another way, and could
        began, kinds, says = (seen.value[name] for name in ("began", "raised", "says"))
        expected = {"expected": f"a RuntimeError that names step {step}"}
        headline = (
            f"It began at step {began}, although checkpoint {step} is unreadable."
        )
        expect(seen, began is None, headline, **expected)
        headline = f"{kinds[0]} was raised where RuntimeError was expected."
        expect(seen, "RuntimeError" in kinds, headline, seen=says, **expected)
        expect_files_stay(seen)
    if seen.error or "RuntimeError" not in seen.value["raised"]:
        return  # there is nothing that could say why
    with statement("says why"):
        is_named = f"{step}" in numbers_in(says)
        expect(seen, is_named, "The RuntimeError does not name the step.", seen=says)
        headline = (
            "The RuntimeError does not say why: it was not raised from the error."
        )
        expect(seen, seen.value["has reason"], headline)


def expect_files_stay(seen):
    # Orbax makes up names of files; those of checkpoints are the steps.
    changed = sorted({name.split("/")[0] for name in seen.value["changed"]})
    headline = "Files of the checkpoints are gone, new or changed."
    expect(seen, not changed, headline, seen=", ".join(changed))


def try_older(seen, step, newer):
    with statement("newest"):
        expect_result(seen)
        began = seen.value["began"]
        headline = f"It began at step {began}; step {step} was asked for."
        if began is None:
            headline = f"{seen.value['raised'][0]} was raised: {seen.value['says']}"
        expect(seen, began == step, headline, expected=f"checkpoint {step}")
    with statement("both come back"):
        expect_result(seen)
        lost = seen.value["lost"]
        headline = f"Not as saved at step {step}: {', '.join(lost)}."
        expect(seen, not lost, headline)
    with statement("stops if unreadable"):
        expect_result(seen)
        expect_files_stay(seen)
    with statement("says why"):
        expect_result(seen)
        printed = seen.value["printed"]
        is_named = {*map(str, newer)} <= numbers_in(printed)
        headline = "No printed line names the newer checkpoints."
        expected = " and ".join(map(str, newer))
        expect(seen, is_named, headline, seen=printed, expected=expected)


@visible(
    "restore_state",
    points=4,
    essential=["both come back", "newest", "stops if unreadable"],
    others=["says why", "another run", "does not wait", "arguments stay"],
)
def examples_of_restore_state():
    for steps, stop in (([], 4), ([4, 7], 12)):
        seen, saved, states = gone_on("optimizer", steps, 8, 8, stop)
        with statement("both come back"):
            expect_like_fresh(seen, steps)
            expect_back(seen, states)
            expect_back(saved, states)
        with statement("newest"):
            expect_began(seen, [max(steps, default=0), stop])
    for facts in ({"hidden": 32}, {}):
        seen = observe(other_run, run_settings(**facts), {"hidden": 64}, [3])
        with statement("another run"):
            expect_error(seen, "ValueError", ["hidden"])
    seen = observe(restored_from, [110, 220, 330], 330, "state")
    try_to_stop(seen, 330)
    seen = observe(restored_from, [110, 220, 330], 330, "state", 220)
    try_older(seen, 220, [330])
    seen = observe(deleted_arguments, "optimizer", 8)
    with statement("arguments stay"):
        expect_not_deleted(seen)


@hidden("restore_state")
def cases_of_restore_state():
    seen, saved, states = gone_on("lists", [5, 10], [1, 2], [7, 3, 4], 20, 1, True)
    with statement("newest"):
        expect_began(seen, [10, 20])
    with statement("both come back"):
        expect_like_fresh(seen, [5, 10])
        expect_back(seen, states)
        expect_back(saved, states)
    seen = observe(waits_of_save, 3)
    with statement("does not wait"):
        expect_no_waiting(seen)

    def others(rng):
        width, rate, limit = (drawn_name(rng) for _ in range(3))
        one = {"run": "a", "seed": 7, width: {"layers": [1, 2]}}
        two = {width: {"layers": [1, 3]}}
        yield Case(one, one | two, mentions=[width])
        yield Case(one, {"run": "a", rate: 3}, mentions=[rate])
        yield Case(one | {limit: 0}, {limit: None}, mentions=[limit])

    free = {"compiles collectives sent arrays layout": "compared by stop_and_go_on"}
    free |= {"arguments": "see deleted_arguments", "value": "it raises"}
    expect_like_solution(other_run, others, error="another run", free=free)
    rng = drawn(4)
    [alone], two, three = (drawn_steps(rng, count) for count in (1, 2, 3))
    for steps, bad, *more in (
        ([alone], alone, ("RuntimeError", 1)),  # of the facts
        (two, two[1], ("MemoryError", 2)),  # of the state
        (three, three[1], "facts", three[1]),
    ):
        try_to_stop(observe(restored_from, steps, bad, *more), bad)
    oldest, *newer = steps = drawn_steps(rng, 3)
    seen = observe(restored_from, steps, newer[0], "facts", oldest)
    try_older(seen, oldest, newer)


# Exercise 5.5


def saved_twice(tree, devices):  # two checkpoints and half of one
    mesh = mesh_of(devices, ("data",))
    with open_manager(directory := tempfile.mkdtemp()) as manager:
        for step, values in ((9, jax.tree.map(np.zeros_like, tree)), (10, tree)):
            state = jax.tree.map(
                lambda a: place(a, NamedSharding(mesh, P("data") if a.ndim else P())),
                values,
            )
            manager.save(step, args=Composite(state=StandardSave(state)))
    Path(directory, "11.orbax-checkpoint-tmp", "state").mkdir(parents=True)
    return packed(directory)


def moved(files, devices, names, specs, explicit=False):
    types = (AxisType.Explicit if explicit else AxisType.Auto,) * len(names)
    mesh = jax.sharding.Mesh(mesh_of(devices, names).devices, names, axis_types=types)
    return restore_elsewhere(unpacked(files), mesh, partitions(specs))


def partitions(specs):
    return jax.tree.map(lambda s: P(*s), specs, is_leaf=lambda s: isinstance(s, tuple))


def from_nothing(name, half):  # no directory, or one with half a checkpoint
    directory = Path(tempfile.mkdtemp(), name)
    if half:
        Path(directory, "9.orbax-checkpoint-tmp", "state").mkdir(parents=True)
    return restore_elsewhere(str(directory), make_mesh(8), {})


def saved_in_between():  # by another run, into the same directory
    tree = {"w": np.arange(6, dtype=np.float32)}
    directory, mesh = unpacked(saved_twice(tree, 2)), mesh_of(2, ("x",))
    first = restore_elsewhere(directory, mesh, {"w": P("x")})
    with open_manager(directory) as manager:
        state = jax.tree.map(lambda a: place(a + 100, a.sharding), first)
        manager.save(12, args=Composite(state=StandardSave(state)))
    return restore_elsewhere(directory, mesh, {"w": P("x")})


def whole_on_their_way(*arguments):  # arrays that were whole somewhere
    restored, problems, kind = [], [], type(jnp.zeros(1))
    restore, fetch = ocp.PyTreeCheckpointHandler.restore, kind.__array__

    def restoring(*arguments, **options):
        restored.append(restore(*arguments, **options))
        return restored[-1]

    def fetching(array, *arguments, **options):
        if len(array.devices()) > 1 and not array.is_fully_replicated:
            problems.append(f"an array of {list(array.shape)} was fetched to the host")
        return fetch(array, *arguments, **options)

    with (
        mock.patch.object(ocp.PyTreeCheckpointHandler, "restore", restoring),
        mock.patch.object(kind, "__array__", fetching),
    ):
        state = moved(*arguments)

    def at(tree, path):
        if not path:
            return tree
        return at(tree[getattr(path[0], "key", getattr(path[0], "idx", 0))], path[1:])

    def compare(path, leaf):
        asked = at(state, path)
        if not asked.is_fully_replicated and unlike([leaf], [asked]):
            name = getattr(path[-1], "key", "an array") if path else "an array"
            problems.append(f"Orbax restored {name} in another layout")

    for tree in restored:
        jax.tree_util.tree_map_with_path(compare, tree)
    return sorted({*problems})


def expect_in_parts(seen):
    was = "; ".join(seen.value or ())
    headline = "Orbax restored arrays in another layout than specs say."
    if not was.startswith("Orbax"):
        headline = "A split array was fetched to the host."
    rows = {"seen": was, "expected": "parts, where they belong"}
    target = (
        "Orbax is not told the shardings of specs: StandardRestore takes a target that"
        " has them"
    )
    causes = {target: lambda s: was.startswith("Orbax")}
    expect(seen, seen.value == [], headline, **rows, causes=causes)


def expect_placed(seen, tree, devices, names, specs):  # as our own code places it
    mesh, specs = mesh_of(devices, names), partitions(specs)
    tree = jax.tree.map(lambda a, s: place(a, NamedSharding(mesh, s)), tree, specs)
    layout = {path: shards(array) for path, array in leaves(tree)}
    compare_layout(seen, Observation("", "", plain(tree), layout))


@visible(
    "restore_elsewhere",
    points=3,
    essential=["newest values", "sharded by specs", "never gathered"],
    others=[
        "nothing there",
        "unknown axis",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_restore_elsewhere():
    w = np.arange(64, dtype=np.float32).reshape(16, 4)
    tree, many = {"w": w, "b": np.arange(8, dtype=np.int32)}, {"w": ("data",), "b": ()}
    files = made(saved_twice, tree, 8)
    older = {"this is an older checkpoint": jax.tree.map(np.zeros_like, tree)}
    for devices, names, specs in (
        ([0, 1, 2, 3], ["data"], many),
        (PAIRS, ["i", "j"], {"w": ("j", "i"), "b": (("j", "i"),)}),
    ):
        seen = observe(moved, files, devices, names, specs)
        with statement("newest values"):
            expect_close(seen, tree, mistakes=older)
        where = {name: (f'["{name}"]', spec) for name, spec in specs.items()}
        order = {"the axes of a tuple are taken in the mesh's order": (("i", "j"),)}
        order = order if "i" in names else {}
        with statement("sharded by specs"):
            expect_layout(seen, where, np.shape(devices), names, mistakes=order)
        with statement("never gathered"):
            expect_in_parts(observe(whole_on_their_way, files, devices, names, specs))
    seen = observe(from_nothing, "no-runs", False)
    with statement("nothing there"):
        expect_error(seen, "FileNotFoundError", ["no-runs"])
    seen = observe(moved, files, 4, ["data"], many | {"w": ("rows",)})
    with statement("unknown axis"):
        expect_error(seen, "ValueError", ["rows"])


@hidden("restore_elsewhere")
def cases_of_restore_elsewhere():
    rng = drawn(5)

    def array(*shape, dtype="float32"):
        return np.asarray(30 * rng.normal(size=shape), dtype)

    deep = {"a": {"b": {"c": array(4, 6, 2)}, "c": array(6, 3)}, "d": array()}
    where = {"a": {"b": {"c": ("x", "y")}, "c": (None, "y")}, "d": ()}
    deep["e"], where["e"] = (
        [array(12, 3), [array(12)]],
        [("x", "y"), [(("y", "x"),)]],
    )
    low = {"q": array(6, dtype="int8"), "w": array(3, 5, dtype=jnp.bfloat16)}
    for tree, saved_on, devices, names, specs, *explicit in (
        (deep, 2, [[7, 5, 3], [6, 4, 2]], ["x", "y"], where),
        (low, 3, [7, 1, 0], ["rows"], {"q": ("rows",), "w": ("rows",)}, True),
    ):
        files = made(saved_twice, tree, saved_on)
        to = files, devices, names, specs, *explicit
        seen = observe(moved, *to)
        with statement("newest values"):
            expect_close(seen, tree, rtol=0, atol=0)
            kept = jax.tree.structure(seen.value) == jax.tree.structure(tree)
            expect(seen, kept, "The state is in other containers than it was saved.")
        with statement("sharded by specs"):
            expect_placed(seen, tree, devices, names, specs)
        with statement("arguments stay"):
            expect_unchanged(seen)
        with statement("never gathered"):
            expect_in_parts(observe(whole_on_their_way, *to))
    seen = observe(saved_in_between)
    with statement("nothing is remembered"):
        expect_close(seen, {"w": np.arange(100, 106, dtype=np.float32)})
    axis, name = drawn_name(rng), drawn_name(rng)
    with statement("unknown axis"):
        seen = observe(moved, files, 2, ["x"], {"q": (("x", axis),), "w": ()})
        expect_error(seen, "ValueError", [axis])
    with statement("nothing there"):
        expect_error(observe(from_nothing, name, True), "FileNotFoundError", [name])


# Exercise 5.6

KILLED = "The process was killed by SIGKILL."
GIVEN_WHOLE = "unsplit"  # a batch


@contextlib.contextmanager
def watched_saves(folder, num_devices):
    """Lists steps that are saved before their line is in the log, and layouts."""
    log, early, other = Path(folder, "metrics.jsonl"), [], set()
    save = ocp.CheckpointManager.save

    def saving(manager, step, *arguments, **options):
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        early.extend({step} - {json.loads(line)["step"] for line in lines})
        with contextlib.suppress(Exception):  # another item, or another way to save
            params = options["args"].state.item["params"]
            other.update(in_other_layouts(params, num_devices))
        return save(manager, step, *arguments, **options)

    with mock.patch.object(ocp.CheckpointManager, "save", saving):
        yield early, other


@contextlib.contextmanager
def multiplying_programs(size):
    """Lists how each program that multiplies matrices gets a batch of `size` numbers.

    What JAX has compiled before is compiled again, so that it is seen.
    """
    found, folder = [], tempfile.mkdtemp()
    before = jax.config.values["jax_dump_ir_to"]
    jax.clear_caches()
    jax.config.update("jax_dump_ir_to", folder)
    try:
        yield found
    finally:
        jax.config.update("jax_dump_ir_to", before)
    for path in sorted(Path(folder).glob("*compile*")):
        with tracing.ir_context():
            found.extend(uses_of_batch(mlir.ir.Module.parse(path.read_text()), size))


def uses_of_batch(module, size):  # "": each device computes its own rows
    program = TracedProgram(module)
    if not program.multiplied:
        return
    if module.operation.attributes["mhlo.num_partitions"].value == 1:
        yield ONE_DEVICE
        return
    for one in program.collectives:  # gradients are fewer numbers than a batch
        times = one.devices if one.kind == "all-gather" else 1
        if times * one.numbers >= size:
            yield EVERY_DEVICE
    main = program.symbols["main"]
    arrays = zip(
        main.regions[0].blocks[0].arguments,
        main.attributes["arg_attrs"],
        program.whole_inputs,
        strict=True,
    )
    for array, attributes, use in arrays:
        if np.prod(array.type.shape) == size:
            is_split = '{"' in str(attributes)  # by a mesh's axis, before it is given
            yield "" if use == ONE_DEVICE and is_split else use
            if not is_split:
                yield GIVEN_WHOLE


def kept_steps(folder, settings):  # and what the newest one's facts differ in
    with open_manager(folder) as manager:
        if not (steps := sorted(manager.all_steps())):
            return "[]"
        facts = {}
        with contextlib.suppress(Exception):
            wanted = Composite(facts=JsonRestore())
            facts = manager.restore(steps[-1], args=wanted).facts
    names = sorted({*facts, *settings})
    other = [name for name in names if facts.get(name) != settings.get(name)]
    return f"{steps}" + f", other facts: {', '.join(other)}" * bool(other)


def in_other_layouts(params, num_devices):  # the parameters that are
    layouts = jax.tree.leaves(layout_of(params, make_mesh(num_devices)))
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return [
        jax.tree_util.keystr(path) or "w"
        for (path, leaf), layout in zip(leaves, layouts, strict=True)
        if not isinstance(leaf, jax.Array)
        or not leaf.sharding.is_equivalent_to(layout, leaf.ndim)
    ]


def run_once(changes, files=None, compiles_anew=False):  # goes on from files
    new = f"{os.path.relpath(tempfile.mkdtemp())}/new/run/"
    config = config_of(unpacked(files) if files else new, **changes)
    count, size = config["num_devices"], config["batch_size"]
    size *= make_task(config)[0][0].shape[1]
    not_watched = contextlib.nullcontext([])
    programs = multiplying_programs(size) if compiles_anew else not_watched
    saves = watched_saves(config["directory"], count)
    with saves as (early, other), programs as uses:
        params = fit(given := {**config})
    other = sorted({*other, *in_other_layouts(params, count)})
    found = {"in other layouts": other, "uses": uses, "early": early}
    found |= {"params": plain(params), "config stays": given == config}
    return found | {"ended": "finished", "files": packed(config["directory"])}


def begin(changes, num_processes):  # in processes, or here
    folder, ended = tempfile.mkdtemp(), "finished"
    if num_processes:
        write_script(script := Path(folder, "pipeline.py"), run_fit)
        settings = {"directory": folder, **changes}
        ended = run_script(script, settings, num_processes, timeout_s=40)
    else:
        fit(config_of(folder, **changes))
    return {"ended": ended, "files": packed(folder)}


def handed_on(files, changes, shift):  # log lines marked, the parameters shifted
    log = Path(folder := unpacked(files), "metrics.jsonl")
    log.write_text(
        log.read_text(encoding="utf-8").replace("}", ', "before": true}'),
        encoding="utf-8",
    )
    checkpoints = f"{folder}/checkpoints"
    if shift:
        config = config_of(folder, **changes)
        fresh = first_state(make_task(config)[2], make_optimizer(config), make_mesh(8))
        step, state, facts = newest(checkpoints, fresh)
        state["params"] = jax.tree.map(lambda a: a + shift, state["params"])
        shutil.rmtree(checkpoints)
        with open_manager(checkpoints) as manager:
            save_by_orbax(manager, step, state, facts)
    return packed(folder)


def left_by_run(files, changes):  # what its log and its checkpoints hold
    text = Path(folder := unpacked(files), "metrics.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    steps, losses = (np.array([row[name] for row in rows]) for name in ("step", "loss"))
    saved = kept_steps(f"{folder}/checkpoints", settings_of(config_of("", **changes)))
    kept = sum("before" in row for row in rows)  # lines of the run before
    return {"logged": steps, "losses": losses, "saved": saved, "kept": kept}


def ran(changes, *given):  # one run, and what it leaves
    seen = observe(run_once, changes, *given)
    if seen.error or not isinstance(seen.value, dict):
        return seen
    read = observe(left_by_run, seen.value.get("files"), changes, clean=True)
    value = {**seen.value, "saved": "", **(read.value or {})}
    return dataclasses.replace(seen, value=value, error=read.error)


def ran_twice(changes, num_processes, later, shift=0.0):  # in processes, then once more
    first = observe(begin, changes, num_processes)
    if first.error or not isinstance(first.value, dict):
        return first
    if first.value["ended"] not in ("finished", KILLED):
        return first
    changes = changes | {"cut_at": None} | later
    given = observe(handed_on, first.value["files"], changes, shift, clean=True)
    if given.error:
        return dataclasses.replace(first, error=given.error)
    second = ran(changes, given.value)
    found = {"ended": first.value["ended"]}
    return dataclasses.replace(second, value=(second.value or {}) | found)


def saved_params(files, changes):  # of the newest checkpoint; None without one
    config = config_of(folder := unpacked(files), **changes)
    fresh = first_state(make_task(config)[2], make_optimizer(config), make_mesh(8))
    with contextlib.suppress(Exception):
        return newest(f"{folder}/checkpoints", fresh)[1]["params"]


def trained_in(num_processes, changes):  # how they end, and what they have trained
    seen = observe(begin, changes, num_processes)
    if seen.error or not isinstance(seen.value, dict):
        return seen
    read = observe(saved_params, seen.value.get("files"), changes, clean=True)
    value = {"ended": seen.value.get("ended"), "params": read.value}
    return dataclasses.replace(seen, value=value)


def refused(changes):  # raises what fit does; after it has written: says what
    folder = tempfile.mkdtemp()
    try:
        return fit(config_of(folder, **changes))
    except Exception as error:
        if not (written := sorted(path.name for path in Path(folder).iterdir())):
            raise
        return {"raised": type(error).__name__, "written": written}


def expect_refused(changes, kind, says):
    seen = observe(refused, changes)
    if isinstance(seen.value, dict) and "raised" in seen.value:
        raised, written = seen.value["raised"], ", ".join(seen.value["written"])
        headline = f"It raised {raised}, but had already written: {written}."
        expect(seen, False, headline)
    expect_error(seen, kind, [says])


@functools.cache  # every submission of a class is compared with it
def alone(begun=0, lost="", shift=0, **changes):  # one device; lost, shifted at begun
    config = config_of("", **changes)
    (x, y), loss_fn, init = make_task(config)
    optimizer, size, losses = make_optimizer(config), config["batch_size"], []
    state = {"params": jax.jit(init)()}
    state["opt_state"] = optimizer.init(state["params"])

    @jax.jit
    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(state["params"], x, y)
        return updated(optimizer, state, grads), loss

    num_epochs = config["num_steps"] * size // len(x) + 2
    line = endless_line(config["seed"], num_epochs, len(x))
    for number in range(config["num_steps"]):
        if number == begun:
            state["params"] = jax.tree.map(lambda a: a + shift, state["params"])
        if number == begun and lost == "optimizer":
            state |= {"opt_state": optimizer.init(state["params"])}
        back = {"stream": begun, "batch": -1}.get(lost, 0) if number >= begun else 0
        rows = line[size * (number - back) :][:size]
        state, loss = step(state, x[rows], y[rows])
        losses.append(float(loss))
    params, steps = jax.tree.map(np.asarray, state["params"]), range(1, number + 2)
    return {"params": params, "losses": np.array(losses), "logged": np.array(steps)}


def lost_parts(changes):  # causes, computed only where needed
    def is_like(seen, lost):
        other = alone(seen.value["kept"], lost, **changes)["losses"]
        pairs = zip(other, seen.value["losses"], strict=False)
        return all(abs(a - b) < 4e-3 for a, b in pairs)

    return {
        "the stream starts at batch `step` + 1, not at batch `step`": (
            lambda s: is_like(s, "batch")
        ),
        "the optimizer's state began again": (
            lambda s: s.value["kept"] and is_like(s, "optimizer")
        ),
        "the stream began again with batch 0": (
            lambda s: s.value["kept"] and is_like(s, "stream")
        ),
    }


def expect_trained(seen, changes, wanted):
    causes, logged = lost_parts(changes), len(wanted["logged"])
    if isinstance(seen.value, dict) and len(seen.value["logged"]) == logged - 1:
        # "checkpoints" says that the last line was never flushed.
        lines = {name: wanted[name][:-1] for name in ("losses", "logged")}
        wanted = wanted | lines
    expect_among(seen, wanted, rtol=1e-3, atol=2e-3, causes=causes)


def expect_sharded(seen):
    expect_result(seen)
    other = ", ".join(seen.value["in other layouts"])
    headline = f"Not sharded as first_state made it: {other}."
    expect(seen, not other, headline, expected="the sharding of layout_of")
    headline = "A step is given a batch that is not sharded by rows."
    expect(seen, GIVEN_WHOLE not in seen.value["uses"], headline)


def expect_shared(seen):  # by the step's program
    expect_result(seen)
    uses = seen.value["uses"]
    headline = "No program of the run multiplies a batch that is split over devices."
    expect(seen, uses, headline)
    for use in filter(USES.get, uses):
        expect(seen, False, USES[use])


def expect_saved(seen, steps):
    expect_result(seen)
    early = ", ".join(map(str, seen.value["early"]))
    headline = f"Saved before their line was in the log: checkpoints {early}."
    expect(seen, not early, headline, expected="flush(), then save_state")
    headline = f"At the end there are the checkpoints {seen.value['saved']}."
    expect(seen, seen.value["saved"] == steps, headline, expected=steps)


def expect_config_stays(seen):
    expect_result(seen)
    expect(seen, seen.value["config stays"], "The config was changed.")


def expect_ended(seen, ended):
    expect_entries(seen, {})
    waits = "one process waits for another: all make the same calls (section 6)"
    waits = {waits: lambda s: "did not finish" in s.value["ended"]}
    rows = {"seen": seen.value["ended"], "expected": ended, "causes": waits}
    headline = "The script ended in another way."
    expect(seen, seen.value["ended"] == ended, headline, **rows)


def expect_kept(seen, kept):  # lines of the run before
    headline = f"The second run kept {seen.value['kept']} lines of the log."
    expected = f"{' or '.join(map(str, kept))}: steps of the checkpoint"
    expect(seen, seen.value["kept"] in kept, headline, expected=expected)


@visible(
    "fit",
    points=6,
    essential=["trains to the last step", "goes on", "work is shared"],
    others=[
        "stays sharded",
        "checkpoints",
        "refuses bad settings",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_fit():
    changes = {"num_steps": 40, "save_every": 15, "keep": 3, "hidden": 16}
    wanted, straight = alone(**changes), ran(changes, None, True)
    with statement("trains to the last step"):
        expect_trained(straight, changes, wanted)
    with statement("work is shared"):
        expect_shared(straight)
    with statement("stays sharded"):
        expect_sharded(straight)
    with statement("checkpoints"):
        expect_saved(straight, "[15, 30, 40]")
    with statement("arguments stay"):
        expect_config_stays(straight)
    with statement("refuses bad settings"):
        for bad, kind, says in (
            ({"batch_size": 72}, "ValueError", "72"),
            ({"directory": "/dev/null"}, "NotADirectoryError", "/dev/null"),
            ({"num_devices": 16}, "ValueError", "16"),
        ):
            expect_refused(bad, kind, says)
    seen = ran_twice(changes | {"cut_at": 37}, 1, {})
    with statement("goes on"):
        expect_ended(seen, KILLED)
        expect_kept(seen, [15, 30])  # 30 may not be complete
        expect_trained(seen, changes, wanted)
        bits = same(seen.value["params"], straight.value["params"])
        headline = "Killed at step 37 and started again, it ends with other bits."
        expect(seen, bits, headline)
    with statement("checkpoints"):
        expect_saved(seen, "[15, 30, 40]")
    with statement("refuses bad settings"):
        expect_result(straight)
        seen = observe(run_once, changes | {"seed": 1}, straight.value["files"])
        expect_error(seen, "ValueError", ["seed"])
    changes = {"task": "regression", "num_steps": 20, "save_every": 5, "peak_lr": 0.1}
    seen = trained_in(2, changes)
    with statement("work is shared"):
        expect_ended(seen, "finished")
        headline = "The two processes left no checkpoint."
        expect(seen, seen.value["params"] is not None, headline)
        wanted = {"params": alone(**changes)["params"]}
        expect_among(seen, wanted, rtol=1e-3, atol=2e-3)


@hidden("fit")
def cases_of_fit():
    rng = drawn(6)
    uneven, many = 8 + 16 * int(rng.integers(99)), int(rng.integers(17, 99))
    name = drawn_name(rng)
    with statement("refuses bad settings"):
        for bad, says in (
            ({"batch_size": uneven}, uneven),
            ({"num_devices": many, "batch_size": 8 * many}, many),
            ({"task": name}, name),
        ):
            expect_refused(bad, "ValueError", says)
    changes = {"task": "regression", "num_steps": 9, "seed": 5, "num_devices": 1}
    changes |= {"batch_size": 12, "num_microbatches": 3, "save_every": 3, "keep": 1}
    later = {"num_steps": 15, "num_devices": 4, "save_every": 7, "keep": 3}
    # What it goes on from has other parameters than it has saved.
    shift = float(rng.uniform(0.5, 1))
    seen = ran_twice(changes, 0, later, shift)
    with statement("goes on"):
        expect_ended(seen, "finished")
        expect_kept(seen, [9])
        wanted = alone(9, shift=shift, **changes | later)
        expect_trained(seen, changes | later, wanted)
    with statement("stays sharded"):
        expect_sharded(seen)
    with statement("checkpoints"):
        expect_saved(seen, "[9, 14, 15]")
    with statement("arguments stay"):
        expect_config_stays(seen)
    changes["peak_lr"] = 0.7  # the run before had another rate, and the same shapes
    wanted, seen = alone(**changes), ran(changes)
    with statement("nothing is remembered"):
        expect_trained(seen, changes, wanted)
    with statement("checkpoints"):
        expect_saved(seen, "[9]")


# Exercise 5.7


class Layer:
    def wide(own, x):
        return x + jnp.tanh(x @ own["up"]) @ own["down"]

    def gated(own, x):
        a, (b, c) = own
        return jnp.tanh(jnp.cosh(x @ a / 4) * jnp.sin(x @ b) + c[:1] * x)

    def scaled(own, x):
        return x * jnp.exp(jnp.sin(own)) + 1


def layer_of(kind, scale=1):  # all layers have one name
    return lambda own, x: scale * getattr(Layer, kind)(own, x)


def layers_case(kind, num_layers, rows, width, seed=0):
    rng = np.random.default_rng([seed, num_layers])

    def array(*shape):
        return np.float32(rng.normal(size=(num_layers, *shape)) / 3)

    if kind == "wide":
        params = {"up": array(width, 16 * width), "down": array(16 * width, width)}
    elif kind == "gated":
        params = array(width, width), [array(width, width), array(width)]
    else:
        params = array()
    return kind, params, np.float32(rng.normal(size=(rows, width)))


def with_gradients(kind, params, x, scale=0.9):
    def loss(params, x, scale):
        y = run_layers(layer_of(kind, scale), params, x)
        return jnp.sin(3 * y).sum(), y

    run = jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))
    grads, y = run(params, x, scale)
    return {"result": y, "gradients": grads}


def one_by_one(kind, params, x, scale=0.9):  # plain calls
    def loss(params, x, scale):
        for number in range(len(jax.tree.leaves(params)[0])):
            own = jax.tree.map(lambda leaf, n=number: leaf[n], params)
            x = layer_of(kind, scale)(own, x)
        return jnp.sin(3 * x).sum(), x

    grads, y = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(params, x, scale)
    return {"result": y, "gradients": grads}


def without_gradients(kind, params, x):
    return run_layers(getattr(Layer, kind), params, x)


def program_of_gradient(kind, params, x):  # bytes kept beside params, lines
    def run(params, x):
        return run_layers(layer_of(kind), params, x)

    def num_bytes(tree):
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    kept = jax.eval_shape(lambda *own: jax.vjp(run, *own)[1], params, x)
    loss = jax.grad(lambda *own: jnp.sin(run(*own)).sum())
    text = jax.jit(loss).lower(params, x).as_text()
    found = {"bytes": num_bytes(kept) - num_bytes(params), "lines": text.count("\n")}
    return found | {"again": "optimization_barrier" in text}  # of jax.checkpoint


def expect_inputs_kept(seen, params, x):
    again = "nothing is computed again: jax.checkpoint is missing"
    two = "the insides of two layers or more are there at once: checkpoint each layer"
    inputs = len(jax.tree.leaves(params)[0]) * x.nbytes
    causes = {
        again: lambda s: not s.value["again"],
        two: lambda s: s.value["bytes"] < 0.75 * inputs,
        "jax.checkpoint keeps more than a layer's input: a policy, or too small a part"
        " of the layer": lambda s: s.value["bytes"] > 1.5 * inputs,
    }
    expect_entries(seen, {})
    found = seen.value["bytes"]
    headline = "What is kept for the gradient is not each layer's input."
    rows = {"seen": f"{found:,} bytes", "expected": f"{inputs:,} bytes: the inputs"}
    is_right = 0.75 * inputs <= found < 1.5 * inputs
    expect(seen, is_right, headline, **rows, causes=causes)


def deletes_arguments(kind, params, x):  # called without a gradient
    given = jax.tree.map(jnp.array, (params, x))
    run_layers(layer_of(kind), *given)
    return is_any_deleted(given)


def expect_one_loop(many, few):
    expect_entries(few, {})
    expect_entries(many, {})
    more = many.value["lines"] / few.value["lines"]
    expect(many, more < 1.3, "The program grows with the number of layers.")


@visible(
    "run_layers",
    points=2,
    essential=["same result", "same gradient", "only inputs are kept"],
    others=["one loop", "arguments stay", "nothing is remembered"],
)
def examples_of_run_layers():
    for case in (("wide", 3, 5, 4), ("gated", 4, 2, 3)):
        arguments = layers_case(*case)
        seen, wanted = observe(with_gradients, *arguments), one_by_one(*arguments)
        for name, part in (
            ("same result", "result"),
            ("same gradient", "gradients"),
        ):
            with statement(name):
                expect_among(seen, {part: wanted[part]}, rtol=1e-4, atol=1e-5)
    cases = (layers_case("wide", num_layers, 256, 8) for num_layers in (3, 12))
    few, many = (observe(program_of_gradient, *case) for case in cases)
    with statement("one loop"):
        expect_one_loop(many, few)
    with statement("only inputs are kept"):
        expect_inputs_kept(many, *layers_case("wide", 12, 256, 8)[1:])


@hidden("run_layers")
def cases_of_run_layers():
    close = {"rtol": 1e-4, "atol": 1e-5}

    def cases(rng):
        for case in (("wide", 1, 1, 3), ("gated", 5, 3, 7), ("scaled", 4, 2, 1)):
            yield Case(*layers_case(*case), **close)
        other = layers_case("scaled", 4, 2, 1, seed=1)
        yield Case(*other, **close, statements="nothing is remembered")

    def two_seeds(rng):
        for seed, what in enumerate(((), "nothing is remembered")):
            case = layers_case("gated", 3, 2, 4, seed)
            yield Case(*case, **close, statements=what)

    free = {"error": "it raises none", "layout": "on one device"}
    free |= {"compiles collectives sent arrays": "measured here and above"}
    expect_like_solution(
        with_gradients,
        cases,
        value=["same result", "same gradient"],
        arguments="arguments stay",
        memory="nothing is remembered",
        free=free,
        scales=(),
    )
    what = {"value": "same result", "arguments": "arguments stay"}
    expect_like_solution(without_gradients, two_seeds, **what, free=free, scales=())
    for kind, count, batch, wide in (("wide", 20, 300, 6), ("gated", 16, 128, 16)):
        seen = observe(program_of_gradient, *layers_case(kind, count, batch, wide))
        with statement("only inputs are kept"):
            expect_inputs_kept(seen, *layers_case(kind, count, batch, wide)[1:])
        short = observe(program_of_gradient, *layers_case(kind, 4, batch, wide))
        with statement("one loop"):
            expect_one_loop(seen, short)
    seen = observe(deletes_arguments, *layers_case("scaled", 2, 3, 3))
    with statement("arguments stay"):
        expect(seen, seen.value is False, "An argument was donated or deleted.")


# Exercise 5.8


class Stage:
    def tanh(own, x):
        return jnp.tanh(x @ own["w"] + own["b"])

    def residual(own, x):
        [weights] = own
        return x + jnp.sin(x @ weights)


def piped(kind, params, x):
    return pipeline_forward(getattr(Stage, kind), params, x)


def mesh_of_program(params, x):  # of shard_map, or else of the layouts
    found, others = [], []

    def look(jaxpr):
        for one in jaxpr.eqns:
            for value in jax.tree.leaves(list(one.params.values())):
                mesh = getattr(value, "mesh", value)
                if not isinstance(mesh, jax.sharding.Mesh) or mesh.empty:
                    continue
                numbers = [jax.devices().index(device) for device in mesh.devices.flat]
                is_own = one.primitive.name == "shard_map"
                text = f"{mesh.devices.ndim} axis, devices {numbers}"
                (found if is_own else others).append(text)
            for inner in jax.tree.leaves(list(one.params.values())):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    look(inner)

    look(tracing.program_steps(functools.partial(piped, "tanh"), params, x))
    return sorted({*(found or others)})


def donated_arrays(params, x):  # how many
    return tracing.num_donated(functools.partial(piped, "tanh"), params, x)


def pipeline_case(num_stages, count, width=5, rows=2, seed=0):
    rng = np.random.default_rng([count, seed])
    w = rng.normal(size=(num_stages, width, width)) / 2
    params = {"w": np.float32(w), "b": np.float32(rng.normal(size=(num_stages, width)))}
    return params, np.float32(rng.normal(size=(count, rows, width)))


def simulated(params, x, all_read=False, too_early=False):  # in float64
    w, b = np.float64(params["w"]), np.float64(params["b"])
    there, results = np.zeros((len(w), *x.shape[1:])), []
    for tick in range(len(x) + len(w) - 1):
        reads = len(w) if all_read and tick < len(x) else 1
        there[:reads] = x[min(tick, len(x) - 1)]
        made = np.tanh(there @ w + b[:, None])
        results.append(made[-1])
        there = np.concatenate([0 * made[:1], made[:-1]])
    return np.array(results[: len(x)] if too_early else results[-len(x) :])


def expect_sends(seen, num_stages, x):  # one in each tick but perhaps the last
    expect_collectives(seen)  # raises if it does not trace
    on = [one for one in seen.collectives if one.kind == "collective-permute"]
    ticks, most = sum(one.times or 0 for one in on), num_stages + len(x) - 1
    headline = f"A device sends {ticks} times by ppermute; M + S - 1 is {most}."
    causes = {
        "the program runs one tick too many": lambda s: ticks == most + 1,
        "a microbatch starts only once the one before it has left the last stage": (
            lambda s: ticks in (num_stages * len(x), (num_stages - 1) * len(x))
        ),
    }
    expect(seen, most - 1 <= ticks <= most, headline, causes=causes)
    empty = [needs for what, needs in seen.needs if what == "send" and len(needs) < 3]
    headline = "What is sent does not depend on the stage and the microbatches."
    expect(seen, not empty, headline)
    others = [one for one in on if one.numbers != (one.times or 0) * x[0].size]
    headline = f"What a device sends is not one microbatch of {x[0].size} numbers."
    expect(seen, not others, headline, seen="; ".join(map(str, others)))


def expect_nothing_else_sent(seen, x):  # but results, once
    expect_collectives(seen)
    more = [one for one in seen.collectives if one.kind != "collective-permute"]
    numbers = sum(one.numbers for one in more)
    rows = {"seen": "; ".join(map(str, more))}
    expect(seen, numbers <= x.size, "More is sent than results, once.", **rows)


def expect_first_devices(seen, num_stages):
    found = ", ".join(seen.value or ())
    wanted = f"1 axis, devices {list(range(num_stages))}"
    rows = {"seen": found, "expected": wanted}
    expect(seen, found == wanted, "shard_map has another mesh.", **rows)


@visible(
    "pipeline_forward",
    points=3,
    essential=["same results", "own stage only", "number of ticks"],
    others=[
        "stage s on device s",
        "nothing else is sent",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_pipeline_forward():
    early = "these are the last device's first M results, not its last"
    many = "each device takes microbatch t, not the first alone"
    for num_stages, count in ((4, 6), (8, 3)):
        params, x = pipeline_case(num_stages, count)
        seen = observe(piped, "tanh", params, x, traced=True)
        others = {early: simulated(params, x, too_early=True)}
        others[many] = simulated(params, x, all_read=True)
        wanted = simulated(params, x)
        with statement("same results"):
            expect_close(seen, wanted, rtol=1e-4, atol=1e-5, mistakes=others)
        with statement("number of ticks"):
            expect_sends(seen, num_stages, x)
        with statement("nothing else is sent"):
            expect_nothing_else_sent(seen, x)
    seen = observe(piped, "tanh", params, x, compiled=True)
    with statement("own stage only"):
        expect_arrays(seen, never=params["w"].shape)
    seen = observe(mesh_of_program, params, x)
    with statement("stage s on device s"):
        expect_first_devices(seen, 8)


@hidden("pipeline_forward")
def cases_of_pipeline_forward():
    close = {"rtol": 1e-4, "atol": 1e-5}

    def cases(rng):
        yield Case("tanh", *pipeline_case(1, 2, 4, 3), **close)
        yield Case("tanh", *pipeline_case(3, 1, 2, 1), **close)
        shapes = (2, 3, 3), (3, 2, 4, 3)
        w, x = (np.float32(rng.normal(size=shape)) for shape in shapes)
        yield Case("residual", [w], x, **close)
        what = "nothing is remembered"
        other = jax.tree.map(jnp.asarray, pipeline_case(3, 1, 2, 1, seed=1))
        yield Case("tanh", *other, **close, statements=what)
        params, x = pipeline_case(2, 9, 1, 2)  # not the smallest: its errors are shown
        for scale in (1, 0):
            yield Case("tanh", params, np.float32(scale) * x, **close)

    free = {"error": "it raises none", "layout": "the results may lie anywhere"}
    free |= {"collectives sent arrays compiles": "measured here and below"}
    what, stay = "same results", "arguments stay"
    expect_like_solution(
        piped,
        cases,
        value=what,
        arguments=stay,
        memory="nothing is remembered",
        free=free,
        scales=(),
    )
    with statement("number of ticks"):
        expect_own_share(piped, "tanh", *pipeline_case(8, 16))
    params, x = pipeline_case(3, 4, 5, 4)
    seen = observe(piped, "tanh", params, x, compiled=True)
    with statement("same results"):
        expect_close(seen, simulated(params, x), **close)
    with statement("own stage only"):
        for leaf in params.values():
            expect_arrays(seen, never=leaf.shape)
    with statement("stage s on device s"):
        expect_collectives(seen)  # raises if it does not trace
        back = [pair for pair in seen.pairs if (pair[1] - pair[0]) % 3 != 1]
        headline = "A device sends to another than the next one."
        expect(seen, not back, headline, seen=back)
    seen = observe(mesh_of_program, params, x)
    with statement("stage s on device s"):
        expect_first_devices(seen, 3)
    seen = observe(donated_arrays, params, x)
    with statement("arguments stay"):
        headline = "An argument was donated or deleted."
        expect(seen, seen.value == 0, headline, expected="none")


# Exercise 5.9


def wrong_form(schedule, num_stages):  # what is no table of turns, or ""
    if not isinstance(schedule, list | tuple) or not schedule:
        return "The schedule is no list of ticks."
    for tick, row in enumerate(schedule):
        if not isinstance(row, list | tuple) or len(row) != num_stages:
            return f"Tick {tick} is no list of {num_stages} entries."
        for s, turn in enumerate(row):
            is_pair = isinstance(turn, list | tuple) and len(turn) == 2
            if turn is None or (is_pair and str(turn[0]) in ("F", "B")):
                continue
            return f"Tick {tick} has neither a turn nor None for stage {s}."
    return ""


def wrong_turns(schedule, num_stages, num_microbatches):  # fault or "", by statement
    found = {"form": wrong_form(schedule, num_stages)}
    if found["form"]:
        return found
    ticks = {}
    for tick, row in enumerate(schedule):
        for s, turn in enumerate(row):
            if turn is not None:
                ticks.setdefault((str(turn[0]), str(turn[1]), s), []).append(tick)
    numbers = [str(m) for m in range(num_microbatches)]
    every = list(itertools.product("FB", numbers, range(num_stages)))
    for kind, m, s in [*every, *ticks]:
        times, wanted = len(ticks.get((kind, m, s), ())), int(m in numbers)
        if times != wanted:
            text = f"Stage {s} has {times} turns {kind} {m}, not {wanted}."
            return found | {"each once": text}
    found |= dict.fromkeys(("each once", "dependencies", "little is kept"), "")
    last = num_stages - 1
    for kind, m, s in every:
        needs = {"F": ("F", m, s - 1), "B": ("B", m, s + 1)}[kind]
        needs = ("F", m, s) if (kind, s) == ("B", last) else needs
        if (kind, s) != ("F", 0) and ticks[needs] >= ticks[kind, m, s]:
            [here], [there] = ticks[kind, m, s], ticks[needs]
            found["dependencies"] = (
                f"Stage {s} has {kind} {m} in tick {here}; what it needs is made in "
                f"tick {there}."
            )
            break
    for s in range(num_stages):
        if (most := most_kept(schedule, s)) > num_stages - s:
            text = f"Stage {s} keeps {most} microbatches at once, not {num_stages - s}."
            found["little is kept"] = text
            break
    fewest = 2 * (num_microbatches + num_stages - 1)
    text = f"The schedule has {len(schedule)} ticks, not {fewest}."
    return found | {"fewest ticks": text * (len(schedule) != fewest)}


def try_turns(seen, num_stages, count):  # what each statement says of them
    faults = {}
    for name in ("form", "each once", "dependencies", "little is kept", "fewest ticks"):
        with statement(name):
            expect_result(seen)
            schedule = seen.value
            faults = faults or wrong_turns(schedule, num_stages, count)
            fault = faults[name]  # what cannot be tried after a fault has no entry
            cause = "stage 0 goes forward over all microbatches first, as in GPipe"
            is_kept = name == "little is kept"
            causes = {cause: lambda s, kept=is_kept: kept and is_gpipe(s.value)}
            expect(seen, not fault, fault, causes=causes)


def is_gpipe(schedule):
    kinds = [str(row[0][0]) for row in schedule if row[0]]
    return kinds == sorted(kinds, reverse=True)


@visible(
    "one_f_one_b",
    points=2,
    essential=[
        "form",
        "each once",
        "dependencies",
        "little is kept",
        "fewest ticks",
    ],
    others=[],
)
def examples_of_one_f_one_b():
    for num_stages, count in ((4, 6), (3, 2), (1, 3), (4, 1)):
        try_turns(observe(one_f_one_b, num_stages, count), num_stages, count)


@hidden("one_f_one_b")
def cases_of_one_f_one_b():
    sizes = (1, 1), (1, 4), (2, 1), (5, 3), (2, 9), (7, 12), (4, 6), (2, 1200)
    for num_stages, count in sizes:
        try_turns(observe(one_f_one_b, num_stages, count), num_stages, count)
