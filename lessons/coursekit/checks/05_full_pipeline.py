"""Checks of lesson 5, in its order: the stream, the step, checkpoints, whole runs."""

from __future__ import annotations

import builtins
import contextlib
import functools
import itertools
import json
import os
import re
import tempfile
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from orbax.checkpoint.args import Composite, JsonRestore, JsonSave, StandardSave

from coursekit import tracing
from coursekit.checks import hidden, visible
from coursekit.expect import (
    expect,
    expect_close,
    expect_entries,
    expect_error,
    expect_result,
    expect_shapes,
)
from coursekit.expect_program import (
    expect_arrays,
    expect_collectives,
    expect_dtypes,
    expect_layout,
    expect_moved,
)
from coursekit.hidden_cases import Case
from coursekit.learner import (
    batches,
    config_of,
    digits_loss,
    epoch_order,
    fit,
    init_params,
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
    read_own_rows,
    restore_elsewhere,
    restore_state,
    run_fit,
    run_layers,
    save_state,
    settings_of,
    updated,
)
from coursekit.observation import plain, same
from coursekit.observe import num_compiles, observe
from coursekit.outcomes import statement
from coursekit.processes import run_script
from coursekit.reference_checks import expect_like_solution
from coursekit.references import reference_clip, reference_norm, reference_perceptron
from coursekit.script import write_script

PAIRS = [[0, 1], [2, 3], [4, 5], [6, 7]]  # a mesh of 4 x 2 devices


def mesh_of(devices, names):  # of these devices, or of so many of the first
    devices = range(devices) if isinstance(devices, int) else devices
    return jax.sharding.Mesh(np.array(jax.devices())[np.array(devices)], names)


def expect_among(seen, entries, *, mistakes=None, **options):  # of a dict's entries
    expect_entries(seen, {})
    others = {cause: seen.value | part for cause, part in (mistakes or {}).items()}
    expect_close(seen, seen.value | entries, mistakes=others, **options)


# Exercise 5.1


def take_batches(
    data, size, seed, start, count, devices=8, names=("data",), spec=("data",)
):
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


def expect_one_ahead(seen):
    expect_result(seen)
    counts = seen.value
    headline = f"{counts} batches of two arrays were on the devices at each next()."
    late = "the next batch is placed when it is asked for, not before the yield"
    causes = {late: lambda s: np.max(s.value) == 1}
    causes["more than one batch is ahead"] = lambda s: np.min(s.value) > 2
    rows = {"expected": "2 each time: this one and the next", "causes": causes}
    expect(seen, counts == [[2, 2]] * len(counts), headline, **rows)


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
    essential=["batch after batch", "rows in order", "laid out by sharding"],
    others=[
        "one batch ahead",
        "rows must divide",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_batches():
    data = numbered(20, 7)
    for first, count in ((0, 7), (4, 2)):
        seen = observe(take_batches, data, 8, 3, first, count)
        wanted = cut(data, 8, endless_line(3, 4, 20), first, count)
        others = mistaken_batches(data, 8, 3, first, count)
        with statement("batch after batch", "rows in order"):
            expect_close(seen, wanted, mistakes=others)
        where = {"x": (f'["batch {first}"][0]', ["data"])}
        others = {"each device holds all rows: place(array, sharding) splits them": []}
        with statement("laid out by sharding"):
            expect_layout(seen, where, [8], ["data"], mistakes=others)
    seen = observe(batches_on_devices, (data[0], data[0][:, :5]), 8, 0, 3)
    with statement("one batch ahead"):
        expect_one_ahead(seen)
    with statement("rows must divide"):
        expect_error(observe(take_batches, data, 12, 3, 0, 1), "ValueError", [12, 8])


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


def mistaken_steps(params, x, y):  # by cause: 8 devices, 4 microbatches
    case, own = (params, [(x, y)]), (params, [(x[:12], y[:12])])
    found = {
        "a device steps on its own rows: pmean is missing": own,
        "the gradient is 8 times too large: pmean averages over devices": (*case, 8),
        "gradient and loss are 8 times too large: pmean averages": (*case, 8, 8),
        "4 microbatches' gradients are added up, not averaged": (*case, 4),
        "4 microbatches' means are added up, not averaged": (*case, 4, 4),
    }
    found = {cause: reference(*one) for cause, one in found.items()}
    rows = zip(*microbatches_of((x, y), 32), strict=True)
    losses = np.array([reference_perceptron(params, *piece)[0] for piece in rows])
    right = reference(*case)
    for cause, name, wrong in (
        ("grad_norm is that of the clipped gradient", "grad_norm", np.float64(1)),
        ("the loss is one device's: pmean is missing", "loss", losses[:4].mean()),
        ("the loss is that of the last microbatch", "loss", losses[3::4].mean()),
    ):
        found[cause] = right | {"metrics": [right["metrics"][0] | {name: wrong}]}
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
    essential=["steps of the whole batch", "microbatches", "one sync"],
    others=[
        "state is whole",
        "loss and grad_norm",
        "state is donated",
        "compiled once",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_make_train_step():
    params, x, y = digits(1, 96, scale=4)
    seen = observe(
        one_step, "digits_loss", "make_sgd", params, (x, y), 4, 8, compiled=True
    )
    wanted, others = reference(params, [(x, y)]), mistaken_steps(params, x, y)
    close = {"rtol": 1e-3, "atol": 1e-5}
    for name, part in (
        ("steps of the whole batch", "params"),
        ("loss and grad_norm", "metrics"),
    ):
        mistakes = {cause: {part: other[part]} for cause, other in others.items()}
        with statement(name):
            expect_among(seen, {part: wanted[part]}, mistakes=mistakes, **close)
    with statement("one sync"):
        expect_collectives(seen, in_loop=False)
        rows = 'each device takes its own rows: in_specs=(P(), P("data"))'
        causes = {rows: lambda s: (12, 64) in [one.shape for one in s.collectives]}
        numbers = 1 + sum(leaf.size for leaf in params.values())  # once through a ring
        expect_moved(seen, at_most=1.01 * numbers * 4 * 2 * 7 / 8, causes=causes)
    at_once = {
        "a device takes all its 12 rows at once": lambda s: (12, 16) in s.array_shapes
    }
    with statement("microbatches"):
        for shape in ((12, 16), (4, 3, 16)):
            expect_arrays(seen, never=shape, causes=at_once)
    data, case = (x / 8, y), ("digits_loss", "make_sgd")  # too small to be clipped
    seen = observe(train, *case, params, data, 2, 8, 3)
    with statement("steps of the whole batch"):
        wanted = reference(params, split_in(data, 3))["params"]
        expect_among(seen, {"params": wanted}, **close)
    with statement("state is whole"):
        where = {name: (f'["params"]["{name}"]', []) for name in params}
        expect_layout(seen, where, [8], ["data"])
    with statement("state is donated"):
        expect_donated(seen)
    with statement("compiled once"):
        expect_one_program(seen)
    with statement("arguments stay"):
        expect_batch(seen)


# Exercise 5.3


def mixed(params, x, y):
    return jax.jit(mixed_precision_loss)(params, x, y)


def mixed_grads(params, x, y):
    return jax.jit(jax.grad(mixed_precision_loss))(params, x, y)


def has_few_digits(loss):  # no more than a bfloat16
    return loss.astype(jnp.bfloat16).astype(np.float32) == loss


@visible(
    "mixed_precision_loss",
    points=2,
    essential=["digits_loss", "bfloat16 products", "float32 gradients"],
    others=["float32 from the logits on", "arguments stay", "nothing is remembered"],
)
def examples_of_mixed_precision_loss():
    params, x, y = digits(5, 32)
    loss, grads = reference_perceptron(params, x, y)
    seen = observe(mixed, params, x, y, traced=True)
    scaled = {"the loss is still scaled": 1024 * loss}
    with statement("digits_loss"):
        expect_close(seen, loss, rtol=0.02, atol=0, mistakes=scaled)
    both = {"a product gets a float32 factor": lambda s: "bf16" in s.dtypes["matmul"]}
    with statement("bfloat16 products"):
        expect_dtypes(seen, matmul="bf16", causes=both)
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
    split = rows if kind == "optimizer" else whole
    return jax.tree.map(lambda a: jax.device_put(a, split if a.ndim else whole), tree)


def unlike(state, fresh):  # in what a restored state differs
    types, wanted = (str(jax.tree.map(jax.typeof, tree)) for tree in (state, fresh))
    laid = all(
        isinstance(a, jax.Array) and a.sharding.is_equivalent_to(b.sharding, b.ndim)
        for a, b in zip(*map(jax.tree.leaves, (state, fresh)), strict=False)
    )
    return "structure or dtypes" if types != wanted else "" if laid else "layout"


def lost_entries(found, wanted):  # names of what has other values than were saved
    trees = (x if isinstance(x, dict) else {"a leaf": x} for x in (found, wanted))
    found, wanted = (plain(tree) for tree in trees)
    return [name for name in wanted if not same(found.get(name), wanted[name])]


def is_any_deleted(tree):
    return any(leaf.is_deleted() for leaf in jax.tree.leaves(tree))


def damage(directory, steps, item):  # counts what is damaged, here or beside
    for path in (p for s in steps for p in Path(directory, f"{s}", item).rglob("*")):
        if path.is_file():
            path.write_bytes(b"damaged")
    found = (path for path in Path(directory).parent.rglob("*") if path.is_file())
    return sum(path.read_bytes() == b"damaged" for path in found)


def save_by_orbax(manager, step, state, facts):
    manager.save(step, args=Composite(state=StandardSave(state), facts=JsonSave(facts)))


def stop_and_go_on(
    kind, stops, devices, damaged=(), item="state", keep=2, by_hand=False
):
    directory, began, lost, other, count = f"{tempfile.mkdtemp()}/run", [], [], [], 0
    for number, stop in enumerate(stops):
        if stop in stops[:number]:  # comes twice: there was damage
            count = damage(directory, damaged, item)
            Path(directory, f"{stop + 1}.orbax-checkpoint-tmp").mkdir()  # half written
        with open_manager(directory, keep) as manager:
            fresh = state_of(kind, devices[number], 0)
            settings = run_settings(run={"heads": 4, "layers": [2, 3]})  # the same
            step, state, facts = restore_state(manager, fresh, settings)
            began, other = [*began, step], [*other, unlike(state, fresh)]
            lost += lost_entries(state, state_of(kind, devices[number], step))
            has = run_settings(position=100 + step) if step else {}
            lost += ["facts"] * (facts != has)
            now = state_of(kind, devices[number], stop)
            saves = save_by_orbax if by_hand else save_state
            saves(manager, stop, now, run_settings(position=100 + stop))
            manager.wait_until_finished()
            if number + 1 == len(stops):  # by the same manager once more
                began.append(restore_state(manager, fresh, run_settings())[0])
            kept, parts = sorted(manager.all_steps()), os.listdir(f"{directory}/{stop}")
    found = {"went on from steps": began, "came back otherwise": sorted({*lost})}
    found |= {"unlike fresh in": sorted({*other} - {""}), "at last there are": kept}
    found["damaged files stay"] = count == damage(directory, [], "")
    return found | {"items": sorted(name for name in parts if name.isalpha())}


def deleted_arguments(kind, devices):
    with open_manager(f"{tempfile.mkdtemp()}/run") as manager:
        state, fresh = (state_of(kind, devices, seed) for seed in (1, 0))
        save_state(manager, 1, state, run_settings())
        manager.wait_until_finished()
        restore_state(manager, fresh, run_settings())
    trees = {"the saved state": state, "fresh": fresh}
    return [name for name, tree in trees.items() if is_any_deleted(tree)]


def other_run(facts, settings, left=False, newer=()):  # damaged ones are newer
    directory, state = f"{tempfile.mkdtemp()}/run", state_of("optimizer", 8, 1)
    with open_manager(directory, 9) as manager:
        for step, found in (3, facts), *((step, settings) for step in newer):
            save_state(manager, step, state | {"more": state["key"]}, found)
    damage(directory, newer, "state")
    with open_manager(directory) as manager, contextlib.suppress(*[ValueError] * left):
        restore_state(manager, state_of("optimizer", 8, 0), settings)
    return 3 in manager.all_steps()


def waits_of_save(step):  # how often save_state waits once the saving has begun
    with open_manager(f"{tempfile.mkdtemp()}/run") as manager:
        save, wait, begun, waits = manager.save, manager.wait_until_finished, [], []
        manager.save = lambda *a, **more: begun.append(save(*a, **more)) or begun[-1]
        manager.wait_until_finished = lambda: waits.extend(begun) or wait()
        save_state(manager, step, state_of("lists", 8, step), run_settings())
        return len(waits)


def failing_reads(errors):  # step, kind, and from which reading on it is raised
    directory, state = f"{tempfile.mkdtemp()}/run", state_of("lists", 2, 1)
    kinds, first = ({step: one[k] for step, *one in errors} for k in (0, 1))
    times, raised = dict.fromkeys(kinds, 0), set()
    with open_manager(directory, 9) as manager:
        for step in (1, *kinds):
            save_by_orbax(manager, step, state, run_settings())
        manager.wait_until_finished()
        restore = manager.restore

        def reading(step=None, *arguments, **options):
            number = manager.latest_step() if step is None else int(step)
            if number in kinds:
                times[number] += 1
                if times[number] >= first[number]:
                    raised.add(number)
                    raise getattr(builtins, kinds[number])
            return restore(step, *arguments, **options)

        manager.restore = reading
        step, *_ = restore_state(manager, state, run_settings())
        there = sorted(manager.all_steps())
    stays = [step for step in there if step in raised]
    return {"raised": sorted(raised), "began": step, "there": there, "stays": stays}


@visible(
    "restore_state",
    points=4,
    essential=[
        "state and facts are saved",
        "the newest checkpoint",
        "laid out as fresh",
    ],
    others=[
        "fresh without checkpoint",
        "another run",
        "damaged ones are set aside",
        "arguments stay",
    ],
)
def examples_of_restore_state():
    seen = observe(stop_and_go_on, "optimizer", [4], [8])
    with statement("fresh without checkpoint"):
        expect_entries(seen, {"went on from steps": [0, 4], "came back otherwise": []})
    seen = observe(stop_and_go_on, "optimizer", [4, 7, 12], [8] * 3)
    kept = {"at last there are": [7, 12]}
    with statement("the newest checkpoint"):
        expect_entries(seen, {"went on from steps": [0, 4, 7, 12]} | kept)
    with statement("laid out as fresh"):
        expect_entries(seen, {"unlike fresh in": []})
    with statement("state and facts are saved"):
        expect_entries(seen, {"came back otherwise": [], "items": ["facts", "state"]})
    seen = observe(stop_and_go_on, "optimizer", [4, 7, 7, 12], [8] * 4, [7])
    with statement("damaged ones are set aside"):
        expect_entries(seen, {"went on from steps": [0, 4, 4, 7, 12]} | kept)
        expect_entries(seen, {"damaged files stay": True})
        expect_entries(seen, {"unlike fresh in": [], "came back otherwise": []})
        tells = re.search(r"(?<!\d)7(?!\d)", seen.printed)
        expect(seen, tells, "No line tells of the damaged checkpoint of step 7.")
    seen = observe(other_run, run_settings(hidden=32), {"hidden": 64})
    with statement("another run"):
        expect_error(seen, "ValueError", ["hidden"])
    seen = observe(deleted_arguments, "optimizer", 8)
    with statement("arguments stay"):
        headline = "An argument was donated or deleted."
        expect(seen, not seen.value, headline, seen=seen.value, expected="none")


# Exercise 5.5


def saved_twice(tree, devices):  # two checkpoints and half of one; their directory
    mesh = mesh_of(devices, ("data",))
    with open_manager(directory := tempfile.mkdtemp()) as manager:
        for step, values in ((9, jax.tree.map(np.zeros_like, tree)), (10, tree)):
            state = jax.tree.map(
                lambda a: place(a, NamedSharding(mesh, P("data") if a.ndim else P())),
                values,
            )
            manager.save(step, args=Composite(state=StandardSave(state)))
    Path(directory, "11.orbax-checkpoint-tmp", "state").mkdir(parents=True)
    return directory


def moved(tree, saved_on, devices, names, specs, explicit=False):
    types = (AxisType.Explicit if explicit else AxisType.Auto,) * len(names)
    mesh = jax.sharding.Mesh(mesh_of(devices, names).devices, names, axis_types=types)
    specs = jax.tree.map(lambda s: P(*s), specs, is_leaf=lambda s: isinstance(s, tuple))
    return restore_elsewhere(saved_twice(tree, saved_on), mesh, specs)


def from_nothing(name, half):  # no directory, or one with half a checkpoint
    directory = Path(tempfile.mkdtemp(), name)
    if half:
        Path(directory, "9.orbax-checkpoint-tmp", "state").mkdir(parents=True)
    return restore_elsewhere(str(directory), make_mesh(8), {})


def saved_in_between():  # by another run, into the same directory
    tree = {"w": np.arange(6, dtype=np.float32)}
    directory, mesh = saved_twice(tree, 2), mesh_of(2, ("x",))
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
        if unlike([leaf], [at(state, path)]):
            name = getattr(path[-1], "key", "an array") if path else "an array"
            problems.append(f"Orbax restored {name} in another layout")

    for tree in restored:
        jax.tree_util.tree_map_with_path(compare, tree)
    return sorted({*problems})


@visible(
    "restore_elsewhere",
    points=3,
    essential=["the newest values", "laid out by specs", "no whole copy"],
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
    older = {"this is an older checkpoint": jax.tree.map(np.zeros_like, tree)}
    for devices, names, specs in (
        ([0, 1, 2, 3], ["data"], many),
        (PAIRS, ["i", "j"], {"w": ("j", "i"), "b": (("i", "j"),)}),
    ):
        seen = observe(moved, tree, 8, devices, names, specs)
        with statement("the newest values"):
            expect_close(seen, tree, mistakes=older)
        where = {name: (f'["{name}"]', spec) for name, spec in specs.items()}
        with statement("laid out by specs"):
            expect_layout(seen, where, np.shape(devices), names)
        seen = observe(whole_on_their_way, tree, 8, devices, names, specs)
        with statement("no whole copy"):
            was = "; ".join(seen.value or ())
            headline = "Orbax restored arrays in another layout than specs say."
            if not was.startswith("Orbax"):
                headline = "A split array was fetched to the host."
            rows = {"seen": was, "expected": "parts, where they belong"}
            expect(seen, not seen.value, headline, **rows)
    seen = observe(from_nothing, "no-runs", False)
    with statement("nothing there"):
        expect_error(seen, "FileNotFoundError", ["no-runs"])
    seen = observe(moved, tree, 8, 4, ["data"], many | {"w": ("rows",)})
    with statement("unknown axis"):
        expect_error(seen, "ValueError", ["rows"])


# Exercise 5.6

KILLED = "The process was killed by SIGKILL."


@contextlib.contextmanager
def early_saves(folder):  # its log, and steps that are saved before their line
    log, early = Path(folder, "metrics.jsonl"), []
    save = ocp.CheckpointManager.save

    def saving(manager, step, *arguments, **options):
        lines = log.read_text().splitlines() if log.exists() else []
        early.extend({step} - {json.loads(line)["step"] for line in lines})
        return save(manager, step, *arguments, **options)

    with mock.patch.object(ocp.CheckpointManager, "save", saving):
        yield log, early


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


def run_once(changes, folder=None):  # a run that is done only restores
    new = f"{os.path.relpath(tempfile.mkdtemp())}/new/run/"
    config = config_of(folder or new, **changes)
    saves = early_saves(config["directory"])
    with saves as (log, early):
        params = fit(given := {**config})
    on = {len(a.devices()) * a.is_fully_replicated for a in jax.tree.leaves(params)}
    params = jax.tree.map(lambda a: np.asarray(a.addressable_data(0)), params)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    steps, losses = (np.array([row[name] for row in rows]) for name in ("step", "loss"))
    found = {"params": params, "logged": steps, "losses": losses}
    found["lies whole"] = on == {config["num_devices"]}
    saved = kept_steps(log.parent / "checkpoints", settings_of(config))
    saved += f", {early} before their line" * bool(early)
    found |= {"ended": "finished", "saved": saved, "config stays": given == config}
    return found | {"kept": sum("before" in row for row in rows)}  # of the run before


def run_twice(changes, num_processes, later):  # in processes, then once more here
    folder, ended = tempfile.mkdtemp(), "finished"
    if num_processes:
        write_script(script := Path(folder, "pipeline.py"), run_fit)
        settings = {"directory": folder, **changes}
        ended = run_script(script, settings, num_processes, timeout_s=40)
    else:
        fit(config_of(folder, **changes))
    if ended != "finished" and "SIGKILL" not in ended:
        return {"ended": ended}
    log = Path(folder, "metrics.jsonl")
    log.write_text(log.read_text().replace("}", ', "before": true}'))
    return run_once(changes | later, folder) | {"ended": ended}


def refused(changes):  # raises what fit does, if nothing was written
    folder = tempfile.mkdtemp()
    try:
        return fit(config_of(folder, **changes))
    finally:
        if written := sorted(path.name for path in Path(folder).iterdir()):
            raise OSError(f"{' and '.join(written)} was written before")


def alone(changes, begun=0, lost=""):  # one device, whole batches; lost at begun
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
        other = alone(changes, seen.value["kept"], lost)["losses"]
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
    wanted = wanted | {"lies whole": True}
    causes = lost_parts(changes)
    expect_among(seen, wanted, rtol=1e-3, atol=2e-3, causes=causes)


def expect_saved(seen, steps):
    expect_entries(seen, {"saved": steps})


def expect_ended(seen, ended, kept):  # kept: lines of the run before
    expect_result(seen)
    waits = "one process waits for another: all make the same calls (section 6)"
    waits = {waits: lambda s: "did not finish" in s.value["ended"]}
    rows = {"seen": seen.value["ended"], "expected": ended, "causes": waits}
    headline = "The script ended in another way."
    expect(seen, seen.value["ended"] == ended, headline, **rows)
    headline = f"The second run kept {seen.value['kept']} lines of the log."
    expected = f"{' or '.join(map(str, kept))}: steps of the checkpoint"
    expect(seen, seen.value["kept"] in kept, headline, expected=expected)


@visible(
    "fit",
    points=6,
    essential=["trains to the last step", "goes on"],
    others=[
        "checkpoints",
        "several processes",
        "refuses bad settings",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_fit():
    changes = {"num_steps": 40, "save_every": 15, "keep": 3, "hidden": 16}
    wanted, straight = alone(changes), observe(run_once, changes)
    with statement("trains to the last step"):
        expect_trained(straight, changes, wanted)
    with statement("checkpoints"):
        expect_saved(straight, "[15, 30, 40]")
    with statement("arguments stay"):
        expect_entries(straight, {"config stays": True})
    with statement("refuses bad settings"):
        for bad, kind, says in (
            ({"batch_size": 72}, "ValueError", "72"),
            ({"directory": "/dev/null"}, "NotADirectoryError", "/dev/null"),
            ({"num_devices": 16}, "ValueError", "16"),
        ):
            expect_error(observe(refused, bad), kind, [says])
    seen = observe(run_twice, changes | {"cut_at": 37}, 1, {"cut_at": None})
    with statement("goes on"):
        expect_ended(seen, KILLED, [15, 30])  # 30 may not be complete
        expect_trained(seen, changes, wanted)
        bits = same(seen.value["params"], straight.value["params"])
        headline = "Killed at step 37 and started again, it ends with other bits."
        expect(seen, bits, headline)
    with statement("checkpoints"):
        expect_saved(seen, "[15, 30, 40]")
    changes = {"task": "regression", "num_steps": 20, "save_every": 8, "peak_lr": 0.1}
    seen = observe(run_twice, changes, 0, {"seed": 1})
    with statement("checkpoints"):
        expect_error(seen, "ValueError", ["seed"])
    wanted, seen = alone(changes), observe(run_twice, changes, 2, {})
    with statement("several processes"):
        expect_ended(seen, "finished", [20])
        expect_trained(seen, changes, wanted)
        expect_saved(seen, "[16, 20]")


# Exercise 5.7


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

    look(tracing.program_steps(pipeline_forward, params, x))
    return sorted({*(found or others)})


def ways(params, x):  # pairs of devices, one of which sends to the other
    found, todo = set(), [tracing.program_steps(pipeline_forward, params, x)]
    while todo:
        for one in todo.pop().eqns:
            pairs = one.params["perm"] if one.primitive.name == "ppermute" else ()
            found.update(map(tuple, pairs))
            for inner in jax.tree.leaves(list(one.params.values())):
                inner = getattr(inner, "jaxpr", inner)
                todo += [inner] if hasattr(inner, "eqns") else []
    return sorted(found)


def donated_arrays(params, x):  # how many
    return tracing.num_donated(pipeline_forward, params, x)


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


def wrong_sends(seen, num_stages, x):  # what is wrong with what devices send, or ""
    on = [one for one in seen.collectives if one.kind == "collective-permute"]
    ticks, most = sum(one.times or 0 for one in on), num_stages + len(x) - 1
    if not most - 1 <= ticks <= most:
        return f"A device sends {ticks} times in {most} ticks (M + S - 1)."
    shapes = {one.shape for one in on if np.prod(one.shape) != x[0].size}
    if shapes:
        return f"A device sends {shapes} where microbatches have {x[0].size} elements."
    return ""


def more_sends(seen, x):  # what else is sent, if it is more than results once
    more = [one for one in seen.collectives if one.kind != "collective-permute"]
    numbers = sum(np.prod(one.shape) * (one.times or np.inf) for one in more)
    return "; ".join(map(str, more)) if numbers > x.size else ""


def expect_first_devices(seen, num_stages):
    found = ", ".join(seen.value or ())
    wanted = f"1 axis, devices {list(range(num_stages))}"
    rows = {"seen": found, "expected": wanted}
    expect(seen, found == wanted, "shard_map has another mesh.", **rows)


@visible(
    "pipeline_forward",
    points=3,
    essential=["what the stages make", "its own stage alone", "ticks"],
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
        seen = observe(pipeline_forward, params, x, traced=True)
        others = {early: simulated(params, x, too_early=True)}
        others[many] = simulated(params, x, all_read=True)
        wanted = simulated(params, x)
        with statement("what the stages make"):
            expect_close(seen, wanted, rtol=1e-4, atol=1e-5, mistakes=others)
        with statement("ticks"):
            expect_collectives(seen)  # raises if it does not trace
            problem = wrong_sends(seen, num_stages, x)
            expect(seen, not problem, problem)
        with statement("nothing else is sent"):
            expect_collectives(seen)
            more = more_sends(seen, x)
            expect(seen, not more, "More is sent than results, once.", seen=more)
    seen = observe(pipeline_forward, params, x, compiled=True)
    with statement("its own stage alone"):
        expect_arrays(seen, never=params["w"].shape)
    seen = observe(mesh_of_program, params, x)
    with statement("stage s on device s"):
        expect_first_devices(seen, 8)


# Exercise 5.8


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
    found = {"a schedule": wrong_form(schedule, num_stages)}
    if found["a schedule"]:
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
    found |= dict.fromkeys(("each once", "what comes before", "few are kept"), "")
    last = num_stages - 1
    for kind, m, s in every:
        needs = {"F": ("F", m, s - 1), "B": ("B", m, s + 1)}[kind]
        needs = ("F", m, s) if (kind, s) == ("B", last) else needs
        if (kind, s) != ("F", 0) and ticks[needs] >= ticks[kind, m, s]:
            [here], [there] = ticks[kind, m, s], ticks[needs]
            found["what comes before"] = (
                f"Stage {s} has {kind} {m} in tick {here}; what it needs is made in "
                f"tick {there}."
            )
            break
    for s in range(num_stages):
        if (most := most_kept(schedule, s)) > num_stages - s:
            text = f"Stage {s} keeps {most} microbatches at once, not {num_stages - s}."
            found["few are kept"] = text
            break
    fewest = 2 * (num_microbatches + num_stages - 1)
    text = f"The schedule has {len(schedule)} ticks, not {fewest}."
    return found | {"ticks": text * (len(schedule) != fewest)}


def expect_turns(seen, name, num_stages, count):  # what `name` states of them
    expect_result(seen)
    # What cannot be tried after a fault has no entry.
    fault = wrong_turns(seen.value, num_stages, count)[name]
    cause = "stage 0 goes forward over all microbatches first, as in GPipe"
    causes = {cause: lambda s: name == "few are kept" and is_gpipe(s.value)}
    expect(seen, not fault, fault, causes=causes)


def is_gpipe(schedule):
    kinds = [str(row[0][0]) for row in schedule if row[0]]
    return kinds == sorted(kinds, reverse=True)


def made_anew(num_stages, count):  # after the caller emptied the first
    first = one_f_one_b(num_stages, count)
    for tick in (*first, first):
        if isinstance(tick, list):
            tick.clear()
    return one_f_one_b(num_stages, count)


@visible(
    "one_f_one_b",
    points=2,
    bonus=True,
    essential=[
        "a schedule",
        "each once",
        "what comes before",
        "few are kept",
        "ticks",
    ],
    others=["nothing is remembered"],
)
def examples_of_one_f_one_b():
    names = ("a schedule", "each once", "what comes before", "few are kept", "ticks")
    for num_stages, count in ((4, 6), (3, 2), (1, 3), (4, 1)):
        seen = observe(one_f_one_b, num_stages, count)
        for name in names:
            with statement(name):
                expect_turns(seen, name, num_stages, count)


# Exercise 5.9


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

    run = jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))
    grads, y = run(params, x, scale)
    return {"result": y, "gradients": grads}


def without_gradients(kind, params, x):
    return run_layers(getattr(Layer, kind), params, x)


def program_of_gradient(kind, params, x):  # bytes kept, lines
    def loss(params, x):
        return jnp.sin(run_layers(layer_of(kind), params, x)).sum()

    lowered = jax.jit(jax.grad(loss)).lower(params, x)
    memory, text = lowered.compile().memory_analysis(), lowered.as_text()
    found = {"bytes": memory.temp_size_in_bytes, "lines": text.count("\n")}
    return found | {"again": "optimization_barrier" in text}  # of jax.checkpoint


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
    bonus=True,
    essential=["what the layers make", "the same gradient", "inputs alone are kept"],
    others=["one loop", "arguments stay", "nothing is remembered"],
)
def examples_of_run_layers():
    for case in (("wide", 3, 5, 4), ("gated", 4, 2, 3)):
        arguments = layers_case(*case)
        seen, wanted = observe(with_gradients, *arguments), one_by_one(*arguments)
        for name, part in (
            ("what the layers make", "result"),
            ("the same gradient", "gradients"),
        ):
            with statement(name):
                expect_among(seen, {part: wanted[part]}, rtol=1e-4, atol=1e-5)
    cases = (layers_case("wide", num_layers, 256, 8) for num_layers in (3, 12))
    few, many = (observe(program_of_gradient, *case) for case in cases)
    with statement("one loop"):
        expect_one_loop(many, few)
    inside = 4 * 256 * 128  # bytes of the largest array in a layer; 12 inputs: 96 KiB
    again = "nothing is computed again: jax.checkpoint is missing"
    two = "the insides of two layers or more are there at once: checkpoint each layer"
    causes = {
        again: lambda s: not s.value["again"],
        two: lambda s: not 8 * inside < s.value["bytes"] < 20 * inside,
    }
    with statement("inputs alone are kept"):
        expect_entries(many, {})
        headline = "Temporaries of the compiled gradient of 12 layers are too large."
        rows = {"seen": f"{many.value['bytes'] // 1024} KiB", "causes": causes}
        rows["expected"] = "less than 576 KiB: 96 of inputs, and one layer's insides"
        expect(many, many.value["bytes"] < 4.5 * inside, headline, **rows)


# Exercise 5.10


def read_parts(data, grid, names, spec, devices):
    sharding, counts = NamedSharding(mesh_of(grid, names), P(*spec)), [0] * len(data)

    def read(first, last):
        if not 0 <= first <= last <= len(data):
            raise IndexError(f"there are no rows {first} to {last - 1}")
        for row in range(first, last):
            counts[row] += 1
        return data[first:last].copy()

    devices = [jax.devices()[number] for number in devices]
    parts = read_own_rows(read, sharding, data.shape, given := [*devices])
    return parts, counts, given == devices


def own_parts(*arguments):
    return read_parts(*arguments)[0]


def reads_of_rows(*arguments):  # how often each row is read
    return read_parts(*arguments)[1]


def rows_read(*arguments):  # their numbers
    return [row for row, count in enumerate(reads_of_rows(*arguments)) if count]


def most_reads(*arguments):  # of any row
    return max(reads_of_rows(*arguments))


def list_stays(*arguments):  # the caller's list of devices
    return read_parts(*arguments)[2]


def reads_again(grid, names, num_rows):  # the same `read`, after its rows changed
    sharding, rows = NamedSharding(mesh_of(grid, names), P(names[0])), [0.0]

    def read(first, last):
        return np.full((last - first, 2), rows[-1], np.float32)

    for number in (1.0, 2.0):
        rows.append(number)
        own = sorted(sharding.device_set, key=lambda device: device.id)
        parts = read_own_rows(read, sharding, (num_rows, 2), own)
    return sorted({number for part in parts for number in np.ravel(part).tolist()})


def place_of(device, spec):  # what it holds of f32[16, 4] on a 4 x 2 mesh
    rows, columns = slice(0, 16), slice(0, 4)
    if spec[0]:
        rows = slice(4 * (device // 2), 4 * (device // 2) + 4)
    if len(spec) > 1:
        columns = slice(2 * (device % 2), 2 * (device % 2) + 2)
    return rows, columns


def devices_of_parts(seen):
    count = len(seen.value or ())
    pieces = [seen.layout.get(f"[{number}]", ()) for number in range(count)]
    return [[piece.device for piece in part] for part in pieces]


@visible(
    "read_own_rows",
    points=2,
    bonus=True,
    essential=["each device its part", "own rows alone"],
    others=["each row once", "arguments stay", "nothing is remembered"],
)
def examples_of_read_own_rows():
    data, names = np.arange(64, dtype=np.float32).reshape(16, 4), ["data", "model"]
    several = (names, [6, 0, 7]), ([None, "model"], [6, 0, 7])
    for spec, devices in ((["data"], [0, 1, 2, 3]), *several):
        places = [place_of(device, spec) for device in devices]
        seen = observe(own_parts, data, PAIRS, names, spec, devices)
        with statement("each device its part"):
            expect_close(seen, [data[part] for part in places])
            on, own = devices_of_parts(seen), [[device] for device in devices]
            rows = {"seen": on, "expected": own}
            expect(seen, on == own, "Parts lie on other devices.", **rows)
        seen = observe(reads_of_rows, data, PAIRS, names, spec, devices)
        held = [sum(row in range(16)[rows] for rows, _ in places) for row in range(16)]
        with statement("own rows alone"):
            expect_result(seen)
            more = [row for row in range(16) if seen.value[row] and not held[row]]
            headline = f"Rows are read that none of the devices holds: {more}."
            causes = {"all rows of the array are read": lambda s: min(s.value) > 0}
            expect(seen, not more, headline, causes=causes)
        with statement("each row once"):
            expect_result(seen)
            anew = {"each device reads its rows anew": lambda s, h=held: s.value == h}
            headline = f"Rows are read up to {max(seen.value)} times, not once."
            expect(seen, max(seen.value) == 1, headline, causes=anew)
