"""Checks of lesson 1: one program on many devices, each row where it belongs."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coursekit import tracing
from coursekit.checks import hidden, visible
from coursekit.compiled_program import CompiledProgram
from coursekit.expect import (
    expect,
    expect_child_devices,
    expect_close,
    expect_entries,
    expect_error,
    expect_result,
    expect_shapes,
    expect_unchanged,
)
from coursekit.expect_program import expect_arrays, expect_collectives, expect_devices
from coursekit.hidden_cases import Case
from coursekit.learner import (
    init_ensemble,
    launch_env,
    local_sgd_steps,
    pairwise_distances,
    parallel_predict,
    parallel_square,
    replica_spread,
    shard_batch,
)
from coursekit.observe import observe
from coursekit.outcomes import statement
from coursekit.reference_checks import expect_like_solution

DEVICE_COUNT = "--xla_force_host_platform_device_count="


def xla_flags(result):
    return str(result.get("XLA_FLAGS", "")).split()


def counts_after_launch(num_devices, env):
    result = launch_env(num_devices, env)
    flags = [flag for flag in xla_flags(result) if flag.startswith(DEVICE_COUNT)]
    counts = {flag.removeprefix(DEVICE_COUNT) for flag in flags}
    counts |= {str(result.get("JAX_NUM_CPU_DEVICES", ""))} - {""}  # says it, too
    return " ".join(sorted(counts))


def other_flags_after_launch(num_devices, env):
    flags = xla_flags(launch_env(num_devices, env))
    return " ".join(flag for flag in flags if not flag.startswith(DEVICE_COUNT))


def other_variables_after_launch(num_devices, env):  # of those that were given
    given = {*env} - {"XLA_FLAGS"}
    result = launch_env(num_devices, env)
    if not isinstance(result, dict):
        return result
    return {name: result.get(name) for name in given}


def left_of_a_change(num_devices, env):  # in the result of the next call
    launch_env(num_devices, env)["CHANGED"] = "yes"
    return launch_env(num_devices, env).get("CHANGED", "")


@visible(
    "launch_env",
    points=1,
    essential=["a fresh process sees them", "other variables stay"],
    others=[
        "other flags stay",
        "the old count is gone",
        "below one device",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_launch_env():
    kept, old = "--xla_cpu_enable_fast_math=false", f"{DEVICE_COUNT}2"
    seen = observe(launch_env, 4, {"HOME": "/home/ada", "XLA_FLAGS": f"{kept} {old}"})
    with statement("a fresh process sees them"):
        expect_child_devices(seen, 4)
    without_flags = observe(launch_env, 4, {"HOME": "/home/bob"})
    with statement("other variables stay"):
        expect_entries(seen, {"HOME": "/home/ada"})
        expect_entries(without_flags, {"HOME": "/home/bob"})
    with statement("other flags stay"):
        found = xla_flags(seen.value)
        rows = {"seen": " ".join(found), "expected": kept}
        expect(seen, kept in found, "A flag in XLA_FLAGS is gone.", **rows)
    with statement("the old count is gone"):
        found = xla_flags(seen.value)
        rows = {"seen": " ".join(found), "expected": f"XLA_FLAGS without {old}"}
        expect(seen, old not in found, "The old device count is still there.", **rows)
    below = {number: observe(launch_env, number, {}) for number in (0, -3)}
    with statement("below one device"):
        for number, refused in below.items():
            expect_error(refused, "ValueError", mentions=[number])
    with statement("arguments stay"):
        expect_unchanged(seen)


class Pair(NamedTuple):  # a container that is no plain tuple
    first: object
    second: object


def blocks_of(batch, num_devices, by_columns=False):
    if by_columns:  # how the arrays lie in memory
        batch = jax.tree.map(np.asfortranarray, batch)
    return jax.tree.leaves(shard_batch(batch, num_devices))


def tree_of(batch, num_devices, named=False):
    if named:  # containers that are no plain ones
        first, second = batch
        batch = Pair(OrderedDict(x=first), defaultdict(list, y=second))
    return str(jax.tree.structure(shard_batch(batch, num_devices)))


@visible(
    "shard_batch",
    points=2,
    essential=["order stays"],
    others=["the same tree", "dtypes stay", "uneven rows raise", "arguments stay"],
)
def examples_of_shard_batch():
    x = np.arange(48, dtype=np.float32).reshape(16, 3)
    batch = {"x": x, "y": np.arange(16, dtype=np.int32)}
    cut = {"x": x.reshape(8, 2, 3), "y": batch["y"].reshape(8, 2)}
    dealt = {key: np.stack([a[d::8] for d in range(8)]) for key, a in batch.items()}
    causes = {"the rows were dealt out like cards, not cut in order": dealt}
    seen = observe(shard_batch, batch, 8)
    with statement("order stays"):
        expect_close(seen, cut, mistakes=causes)
    with statement("dtypes stay"):
        expect_shapes(seen, cut)
    with statement("arguments stay"):
        expect_unchanged(seen)
    quarters = x.reshape(4, 4, 3)
    nested, bare = observe(shard_batch, [{"x": x}, x], 4), observe(shard_batch, x, 4)
    with statement("the same tree"):
        expect_shapes(nested, [{"x": quarters}, quarters])
        expect_shapes(bare, quarters)
    with statement("order stays"):
        expect_close(nested, [{"x": quarters}, quarters])
        expect_close(bare, quarters)
    uneven = observe(shard_batch, x[:15], 8)
    cause = "reshape raised this: test whether B divides before you reshape"
    causes = {cause: lambda seen: seen.error and "cannot reshape" in seen.error.message}
    with statement("uneven rows raise"):
        expect_error(uneven, "ValueError", mentions=[15, 8], causes=causes)


SPREADS = r"shard_map|xla_pmap|Sharding\(|PartitionSpec|\w@\w"
# What moves rows, or calls what does; anything else computes.
MOVES = {
    *("reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim", "slice"),
    *("dynamic_slice", "gather", "split", "concatenate", "pad", "rev", "copy", "pjit"),
    *("convert_element_type", "device_put", "copy_p", "jit", "stop_gradient"),
    *("optimization_barrier", "reshard"),
}


def computed_before_spread(function, *arguments):  # of the last argument's rows
    num_rows = len(jax.tree.leaves(arguments[-1])[0])
    program = tracing.program_steps(function, *arguments)
    alone = {id(one) for one in program.invars if one.aval.shape[:1] == (num_rows,)}
    found = []
    for step in program.eqns:
        text = str(step)
        if alone & {*map(id, step.invars)} and not re.search(SPREADS, text):
            alone |= {*map(id, step.outvars)}
            found += {*re.findall(r"(?<!,) = (\w+)", text)} - MOVES
    return found


def is_on_one_device(seen):
    return all(len(pieces) == 1 for pieces in seen.layout.values())


ON_ONE_DEVICE = {"jax.pmap runs on a device per row; here is one": is_on_one_device}


def placed(tree):  # row d on device d
    return jax.pmap(lambda rows: rows)(tree)


def deleted(*arrays):
    return [leaf.is_deleted() for leaf in jax.tree.leaves(arrays)]


def expect_placed_result(seen, expected, **tolerance):  # whatever was deleted
    expect_result(seen)
    wanted = {"result": expected, "deleted": seen.value["deleted"]}
    expect_close(seen, wanted, **tolerance)


def expect_alive(seen):
    alive = not any(seen.value["deleted"])
    expect(seen, alive, "An argument was donated or deleted.")


def square_before_spread(x):
    return computed_before_spread(parallel_square, x)


def square_placed(x):
    rows = placed(x)
    return {"result": parallel_square(rows), "deleted": deleted(rows)}


@visible(
    "parallel_square",
    points=1,
    essential=["each number squared", "row d on device d"],
    others=[
        "shape and dtype stay",
        "arguments stay",
        "nothing is remembered",
        "it traces",
    ],
)
def examples_of_parallel_square():
    num_devices = jax.device_count()  # 8, unless yours are real
    x = np.arange(2 * num_devices, dtype=np.float32).reshape(num_devices, 2)
    seen = observe(parallel_square, x, traced=True)
    with statement("each number squared"):
        expect_close(seen, x**2)
    with statement("shape and dtype stay"):
        expect_shapes(seen, x)
    with statement("it traces"):
        expect_arrays(seen)
    alone = observe(square_before_spread, x)
    with statement("row d on device d"):
        expect_devices(seen, num_devices, causes=ON_ONE_DEVICE)
        headline = "One device squared all rows, before they were spread."
        expect(alone, not alone.value, headline)
    with statement("arguments stay"):
        expect_unchanged(seen)


def predict_before_spread(params, x):
    return computed_before_spread(parallel_predict, params, x)


def predict_placed(params, x):
    x = placed(x)
    params = jax.pmap(lambda p, x: p, in_axes=(None, 0), out_axes=None)(params, x)
    result = parallel_predict(params, x)
    return {"result": result, "deleted": deleted(params, x)}


@visible(
    "parallel_predict",
    points=2,
    essential=["a prediction of each block", "row d on device d"],
    others=[
        "no stacked parameters",
        "arguments stay",
        "nothing is remembered",
        "it traces",
    ],
)
def examples_of_parallel_predict():
    rng = np.random.default_rng(0)
    w, b = np.float32(rng.normal(size=(7, 5))), np.arange(5, dtype=np.float32)
    num_devices = jax.device_count()
    x = np.float32(rng.normal(size=(num_devices, 3, 7)))
    product = np.float64(x) @ np.float64(w)
    causes = {"the bias was not added": product}
    seen = observe(parallel_predict, {"w": w, "b": b}, x, traced=True)
    with statement("a prediction of each block"):
        expect_close(seen, product + b, rtol=1e-4, atol=1e-5, mistakes=causes)
    with statement("it traces"):
        expect_arrays(seen)
    with statement("no stacked parameters"):
        expect_arrays(seen, largest=num_devices * 7 * 5 - 1)
    alone = observe(predict_before_spread, {"w": w, "b": b}, x)
    with statement("row d on device d"):
        expect_devices(seen, num_devices, causes=ON_ONE_DEVICE)
        headline = "One device predicted all blocks, before they were spread."
        expect(alone, not alone.value, headline)
    with statement("arguments stay"):
        expect_unchanged(seen)


def distances_before_spread(queries, points):
    def distances(queries, points):
        return pairwise_distances(points, queries)

    return computed_before_spread(distances, queries, points)


def distances_placed(points, queries):
    points, queries = placed(points), jnp.asarray(queries)
    result = pairwise_distances(points, queries)
    return {"result": result, "deleted": deleted(points, queries)}


@visible(
    "pairwise_distances",
    points=3,
    essential=["each distance", "row d on device d"],
    others=[
        "never all differences",
        "four digits",
        "arguments stay",
        "nothing is remembered",
        "it traces",
    ],
)
def examples_of_pairwise_distances():
    rng, num_devices = np.random.default_rng(1), jax.device_count()
    far = np.float32(rng.normal(size=(num_devices, 4, 3)) + 1000)
    far_queries = np.float32(rng.normal(size=(5, 3)) + 1000)
    points, queries = far - 1000, far_queries - 1000  # exact: the distances stay
    gaps = np.float64(points)[:, :, None] - queries
    squares = (gaps**2).sum(-1)
    mistakes = {
        "the square root is missing": squares,
        "absolute differences were added up": np.abs(gaps).sum(-1),
    }
    seen = observe(pairwise_distances, points, queries, traced=True)
    with statement("each distance"):
        expect_close(seen, np.sqrt(squares), rtol=1e-4, mistakes=mistakes)
    with statement("it traces"):
        expect_arrays(seen)
    with statement("never all differences"):
        all_of_them = num_devices * 4 * 5 * 3
        expect_arrays(seen, largest=all_of_them - 1, causes=ON_ONE_DEVICE)
    alone = observe(distances_before_spread, queries, points)
    with statement("row d on device d"):
        expect_devices(seen, num_devices, causes=ON_ONE_DEVICE)
        headline = "One device did the work, before the rows were spread."
        expect(alone, not alone.value, headline)
    cause = "right near 0, not near 1000: what is subtracted after squaring cancels"
    causes = {cause: lambda seen: np.allclose(seen.value, np.sqrt(squares), atol=2)}
    seen_far = observe(pairwise_distances, far, far_queries)
    with statement("four digits"):
        expect_close(seen_far, np.sqrt(squares), rtol=1e-4, causes=causes)
    with statement("arguments stay"):
        expect_unchanged(seen)
        expect_unchanged(seen_far)


def zero_layers(num_devices, sizes):
    return [
        {
            "w": np.zeros((num_devices, n_in, n_out), np.float32),
            "b": np.zeros((num_devices, n_out), np.float32),
        }
        for n_in, n_out in itertools.pairwise(sizes)
    ]


def standard_draws(layers):  # by layer and device: the weights times sqrt(n_in)
    return {
        (number, device): w.ravel() * np.sqrt(len(w))
        for number, layer in enumerate(layers)
        for device, w in enumerate(np.float64(layer["w"]))
    }


def expect_normal(seen, draws, causes=None):
    groups = {f"layer {n} of device {d}": draw for (n, d), draw in draws.items()}
    for layer in sorted({number for number, _ in draws}):
        parts = [draw for (number, _), draw in draws.items() if number == layer]
        groups[f"layer {layer}"] = np.concatenate(parts)
    for name, draw in groups.items():
        mean, std = draw.mean(), draw.std()
        error, fourth = 6 / np.sqrt(draw.size), np.mean(((draw - mean) / std) ** 4)
        headline = f"The weights of {name} have another mean or deviation."
        rows = {
            "seen": f"mean {mean:.2f} / sqrt(n_in), deviation {std:.2f} / sqrt(n_in)",
            "expected": "mean 0, deviation 1 / sqrt(n_in)",
        }
        holds = abs(mean) < error and abs(std - 1) < error
        expect(seen, holds, headline, causes=causes, **rows)
        headline = f"The weights of {name} are not normal."
        rows = {
            "seen": f"a mean fourth power of {fourth:.2f}, where the second's is 1",
            "expected": "3, of normal numbers",
        }
        holds = abs(fourth - 3) < 5 * error
        expect(seen, holds, headline, causes=causes, **rows)


def expect_independent(seen, draws, causes=None):
    numbers = {name: np.unique(np.abs(draw).round(5)) for name, draw in draws.items()}
    for a, b in itertools.combinations(draws, 2):
        size = min(draws[a].size, draws[b].size)
        alike = np.corrcoef(draws[a][:size], draws[b][:size])[0, 1]
        both = np.intersect1d(numbers[a], numbers[b]).size
        share = both / min(numbers[a].size, numbers[b].size)
        names = " and ".join(f"layer {n} of device {d}" for n, d in (a, b))
        was = f"{share:.0%} of the numbers in common, correlation {alike:.2f}"
        holds = not (share > 0.2 or abs(alike) * np.sqrt(size) > 6)
        headline, wanted = f"The weights of {names} are alike.", "independent draws"
        expect(seen, holds, headline, causes=causes, seen=was, expected=wanted)
    for (number, device), draw in draws.items():
        distinct = numbers[number, device].size
        headline = f"Weights of layer {number} of device {device} repeat."
        was, wanted = f"{distinct} distinct numbers", "independent draws"
        holds = distinct >= 0.8 * draw.size
        expect(seen, holds, headline, causes=causes, seen=was, expected=wanted)


def equal_weights(layers, others):
    draws, more = standard_draws(layers), standard_draws(others)
    equal = [place for place in draws if np.allclose(draws[place], more[place])]
    return [f"layer {number} of device {device}" for number, device in equal]


def expect_other_weights(seen, layers, keys):
    kept = ", ".join(equal_weights(layers, seen.value)[:1])
    expect(seen, not kept, f"Keys {keys} gave the same weights to {kept}.")


def causes_of_scale():
    def is_each(scale):
        def is_so(seen):
            weights = [layer["w"] for layer in seen.value]
            return all(0.9 < w.std() / scale(*w.shape[1:]) < 1.1 for w in weights)

        return is_so

    return {
        "they are not scaled by 1 / sqrt(n_in)": is_each(lambda n_in, n_out: 1),
        "they were divided by n_in, not by its root": is_each(lambda n, _: 1 / n),
        "n_out was taken for n_in": is_each(lambda _, n_out: n_out**-0.5),
    }


def causes_of_likeness():
    def share(position):  # layers (0) or devices (1)
        def is_so(seen):
            firsts = {}
            for place, draw in standard_draws(seen.value).items():
                firsts.setdefault(place[1 - position], set()).add(round(draw[0], 4))
            return all(len(first) == 1 for first in firsts.values())

        return is_so

    return {"the devices share a key": share(1), "the layers share a key": share(0)}


@visible(
    "init_ensemble",
    points=3,
    essential=["a list of layers", "a key for each", "the key decides"],
    others=[
        "normal weights",
        "zero biases",
        "arguments stay",
    ],
)
def examples_of_init_ensemble():
    sizes, members = (64, 32, 128), jax.device_count()
    seen = observe(init_ensemble, jax.random.key(3), members, sizes)
    with statement("a list of layers"):
        expect_shapes(seen, zero_layers(members, sizes))
    with statement("a key for each"):
        expect_independent(seen, standard_draws(seen.value), causes_of_likeness())
    with statement("normal weights"):
        expect_normal(seen, standard_draws(seen.value), causes_of_scale())
    with statement("zero biases"):
        for number, layer in enumerate(seen.value):
            headline = f"The biases of layer {number} are not zero."
            expect(seen, not layer["b"].any(), headline)
    again = observe(init_ensemble, jax.random.key(3), members, sizes)
    other = observe(init_ensemble, jax.random.key(4), members, sizes)
    with statement("the key decides"):
        for one in (again, other):
            expect_shapes(one, zero_layers(members, sizes))
        is_same = len(equal_weights(seen.value, again.value)) == 2 * members
        expect(again, is_same, "The same key gave other weights.")
        expect_other_weights(other, seen.value, "3 and 4")
    with statement("arguments stay"):
        expect_unchanged(seen)


def descended(params, x, y, lr, num_steps, average=False):  # in 64 bits
    w, b = np.float64(params["w"]), np.float64(params["b"])
    for _ in range(num_steps):
        error = np.einsum("dbf,df->db", x, w) + b[:, None] - y
        dw = 2 * np.einsum("db,dbf->df", error, x) / x.shape[1]
        db = 2 * error.mean(1)
        if average:  # what lesson 2 will do
            dw, db = (grad.mean(0, keepdims=True) for grad in (dw, db))
        w, b = w - lr * dw, b - lr * db
    return {"w": w, "b": b}


def replicas_and_data():
    num_devices = jax.device_count()
    data = np.float32(np.random.default_rng(4).normal(size=(num_devices, 6, 4)))
    rows = np.ones((num_devices, 3), np.float32)
    return {"w": rows, "b": 0 * rows[:, 0]}, data[..., :3], data[..., 3]


def steps_before_spread(lr, num_steps, *arrays):
    def steps(*arrays):
        return local_sgd_steps(*arrays, lr, num_steps)

    return computed_before_spread(steps, *arrays)


def sent_by_steps(params, x, y, lr, num_steps):  # collectives of all of it, compiled
    def steps(params, x, y):
        return local_sgd_steps(params, x, y, lr, num_steps)

    if jax.version.__version_info__ < (0, 8):  # pmap inside jit joins the rows
        return []
    found = []
    with contextlib.suppress(Exception):  # what JAX does not compile as a whole
        program = jax.jit(steps).lower(*placed((params, x, y))).compile()
        found = [str(one) for one in CompiledProgram(program).collectives]
    return found


def steps_placed(params, x, y, lr, num_steps):
    params, x, y = placed((params, x, y))
    result = local_sgd_steps(params, x, y, lr, num_steps)
    return {"result": result, "deleted": deleted(params, x, y)}


def spread_placed(params):
    rows = placed(params)
    return {"result": replica_spread(rows), "deleted": deleted(rows)}


@visible(
    "local_sgd_steps",
    points=3,
    essential=["each device descends", "row d on device d"],
    others=[
        "no communication",
        "the largest difference",
        "arguments stay",
        "nothing is remembered",
        "it traces",
    ],
)
def examples_of_local_sgd_steps():
    params, x, y = replicas_and_data()
    mistakes = {
        "gradients were averaged": descended(params, x, y, 0.05, 20, average=True),
        "the gradient was added": descended(params, x, y, -0.05, 20),
        "the step used 0.1 in place of lr": descended(params, x, y, 0.1, 20),
        "one step is missing": descended(params, x, y, 0.05, 19),
    }
    expected = descended(params, x, y, 0.05, 20)
    seen = observe(local_sgd_steps, params, x, y, 0.05, 20, traced=True)
    with statement("each device descends"):
        expect_close(seen, expected, rtol=1e-4, atol=1e-5, mistakes=mistakes)
    no_step = observe(local_sgd_steps, params, x, y, 0.05, 0)
    alone = observe(steps_before_spread, 0.05, 3, params, x, y)
    with statement("row d on device d"):
        expect_devices(seen, len(x))
        expect_devices(no_step, len(x))
        headline = "One device did the steps, before the rows were spread."
        expect(alone, not alone.value, headline)
    with statement("it traces"):
        expect_arrays(seen)
    with statement("no communication"):
        expect_collectives(seen, {})
    with statement("arguments stay"):
        expect_unchanged(seen)
    mistakes = {"it is a standard deviation": 3**0.5, "it is between two replicas": 4.0}
    last = np.float32([[5, 0], [5, 0], [5, 0], [1, 2]])
    spread = observe(replica_spread, [np.float32([0, 0, 0, 1]), {"w": last}])
    with statement("the largest difference"):
        expect_close(spread, 3.0, mistakes=mistakes)
