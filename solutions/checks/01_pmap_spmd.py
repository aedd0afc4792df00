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


@hidden("launch_env")
def cases_of_launch_env():
    fast, dump = "--xla_cpu_enable_fast_math=true", "--xla_dump_hlo_as_text"

    def cases_of_flags(rng):
        for num_devices, flags in (
            (3, ""),
            (12, f"{DEVICE_COUNT}2"),
            (6, f"  {DEVICE_COUNT}16   {fast} "),
            (2, f"{dump} {DEVICE_COUNT}4 {fast} {DEVICE_COUNT}128"),
            (1000, f"{fast}  {dump}"),
            (7, f"{dump} {fast} {DEVICE_COUNT}70"),
            (4, f"--a=1 --a=2 {DEVICE_COUNT}3 --a=1"),  # the last one counts
            (5, f"--xla_dump_to=/tmp/device_count {DEVICE_COUNT}2"),
            (9, f"--xla_dump_to=/tmp/{DEVICE_COUNT.strip('-=')}_8"),
        ):
            yield Case(num_devices, {"A": "b c", "XLA_FLAGS": flags})
        yield Case(1, {"A": "b c"})
        yield Case(2, {})

    def cases_of_counts(rng):
        yield from cases_of_flags(rng)
        for num_devices in (0, -1, -25):
            yield Case(num_devices, {"XLA_FLAGS": fast}, mentions=[num_devices])

    def cases_of_variables(rng):
        env = {"LANG": f"{rng.integers(99)}", "A": "b c", "NO": ""}
        for flags in ("", fast, f"{DEVICE_COUNT}2"):
            yield Case(3, env | {"XLA_FLAGS": flags})
        yield Case(1, env)
        yield Case(2, {})

    seen = observe(launch_env, 3, {"PATH": "/bin"})
    with statement("a fresh process sees them"):
        expect_child_devices(seen, 3)
    seen = observe(left_of_a_change, 5, {"HOME": "/root", "XLA_FLAGS": "--a=1"})
    with statement("nothing is remembered"):
        headline = "A change of one result is in the next one, too."
        expect(seen, seen.value == "", headline)
    right = f"{DEVICE_COUNT}5"
    for count, flags in ((5, right), (5, f"--a=1 {right}"), (1, "--a=1"), (1, "")):
        seen = observe(left_of_a_change, count, {"XLA_FLAGS": flags} if flags else {})
        with statement("arguments stay"):
            headline = "A change of the result changes env: the result is no copy."
            expect(seen, seen.value == "", headline)
    free = {"layout collectives sent arrays compiles": "texts, which lie on no device"}
    expect_like_solution(
        other_variables_after_launch,
        cases_of_variables,
        value="other variables stay",
        arguments="arguments stay",
        free=free | {"error": "asked for below"},
    )
    expect_like_solution(
        counts_after_launch,
        cases_of_counts,
        value="the old count is gone",
        error="below one device",
        arguments="arguments stay",
        free=free,
    )
    expect_like_solution(
        other_flags_after_launch,
        cases_of_flags,
        value="other flags stay",
        arguments="arguments stay",
        free=free | {"error": "asked for above"},
    )


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


@hidden("shard_batch")
def cases_of_shard_batch():
    def rows(rng, count, *shape, dtype=np.float32):
        return np.asarray(rng.normal(size=(count, *shape)) * 50, dtype)

    def batches(rng):
        yield rows(rng, 5), 1
        yield (rows(rng, 3, 1) > 0, {}, [rows(rng, 3, dtype=jnp.bfloat16)]), 3
        few, many = rows(rng, 12, dtype=np.int8), jnp.asarray(rows(rng, 12, 2))
        yield {"b": [many], "a": (few,)}, 6
        pixels = rows(rng, 8, 2, 1, 3, dtype=np.uint8)
        yield [pixels, rows(rng, 8, dtype=np.float16)], 8
        yield rows(rng, 72, dtype=np.int32), 12

    def cases_of_blocks(rng):
        yield from (Case(*batch) for batch in batches(rng))
        for _ in range(2):
            yield Case((rows(rng, 6, 2), [rows(rng, 6)]), 2, True)
        for count, num_devices in ((2, 5), (7, 3), (22, 4)):
            batch = [{"x": rows(rng, count, num_devices)}]
            yield Case(batch, num_devices, mentions=[count, num_devices])

    def cases_of_trees(rng):
        yield from (Case(*batch) for batch in batches(rng))
        yield Case({}, 4)
        yield Case(([], ()), 3)
        yield Case((rows(rng, 6, 2), [rows(rng, 6)]), 2, True)

    free = {"layout collectives sent arrays compiles": "nothing is placed"}
    expect_like_solution(
        blocks_of,
        cases_of_blocks,
        value=("order stays", "dtypes stay"),
        error="uneven rows raise",
        arguments="arguments stay",
        free=free,
    )
    expect_like_solution(
        tree_of,
        cases_of_trees,
        value="the same tree",
        arguments="arguments stay",
        free=free | {"error": "asked for above"},
    )


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


@hidden("parallel_square")
def cases_of_parallel_square():
    def cases(rng):
        before = ()
        for shape, dtype in (
            ((1, 2), np.int32),
            ((3,), np.float32),
            ((3,), np.float32),
            ((6, 1), np.uint8),
            ((4, 3), np.float16),
            ((2, 3, 1, 5), jnp.bfloat16),
        ):
            x = np.asarray(rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3), dtype)
            what = ("nothing is remembered",) if shape == before else ()
            what += ("each number squared", "shape and dtype stay")
            yield Case(jnp.asarray(x) if len(x) == 4 else x, statements=what)
            before = shape

    expect_like_solution(
        parallel_square,
        cases,
        value=("each number squared", "shape and dtype stay"),
        layout="row d on device d",
        arguments="arguments stay",
        free={
            "error": "it raises none",
            "collectives sent arrays compiles": "none stated",
        },
    )
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    seen = observe(square_placed, x)
    with statement("each number squared"):
        expect_placed_result(seen, x**2)
    with statement("arguments stay"):
        expect_alive(seen)


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


@hidden("parallel_predict")
def cases_of_parallel_predict():
    def cases(rng):
        before = ()
        for sizes in (
            (1, 1, 1, 1),
            (3, 1, 2, 5),
            (3, 1, 2, 5),
            (6, 5, 7, 1),
            (8, 2, 11, 3),
            (3, 3, 3, 3),
        ):
            num_devices, num_rows, n_in, n_out = sizes
            w, b, x = (
                np.float32(rng.normal(size=shape) * rng.choice([0.01, 1, 300]))
                for shape in ((n_in, n_out), n_out, (num_devices, num_rows, n_in))
            )
            params = {"w": w, "b": b}
            given = jax.tree.map(jnp.asarray, params) if num_devices == 6 else params
            what = ("nothing is remembered",) if sizes == before else ()
            yield Case(given, x, statements=("a prediction of each block", *what))
            before = sizes

    expect_like_solution(
        parallel_predict,
        cases,
        value="a prediction of each block",
        layout="row d on device d",
        arguments="arguments stay",
        free={
            "error": "it raises none",
            "arrays": "asked for above",
            "collectives sent compiles": "none stated",
        },
    )
    params = {"w": np.eye(2, dtype=np.float32), "b": np.ones(2, np.float32)}
    x = np.ones((3, 2, 2), np.float32)
    seen = observe(predict_placed, params, x)
    with statement("a prediction of each block"):
        expect_placed_result(seen, x + 1)
    with statement("arguments stay"):
        expect_alive(seen)
    # Copies for each row: more than devices, fewer elements than F * C in each.
    params = {"w": np.ones((24, 20), np.float32), "b": np.ones(20, np.float32)}
    x = np.ones((3, 12, 24), np.float32)
    seen = observe(parallel_predict, params, x, traced=True)
    with statement("no stacked parameters"):
        expect_arrays(seen, largest=3 * 24 * 20 - 1)


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


@hidden("pairwise_distances")
def cases_of_pairwise_distances():
    def cases(rng):
        before = ()
        for sizes, center, width in (
            ((1, 1, 1, 1), 0, 1),
            ((3, 1, 2, 7), 1000, 1),
            ((3, 1, 2, 7), -2000, 20),
            ((6, 5, 3, 1), 0, 1e-3),
            ((4, 2, 11, 2), 0, 1e5),
            ((2, 4, 4, 3), 0, 1),  # as many points as queries
            ((2, 4, 4, 2), 1000, 1),
            ((3, 3, 3, 3), 0, 1),
            ((2, 67, 131, 3), 0, 1),  # no multiples of a chunk
        ):
            num_devices, num_points, num_queries, width_of_row = sizes
            shape = num_devices, num_points, width_of_row
            points = np.float32(center + width * rng.normal(size=shape))
            shape = num_queries, width_of_row
            queries = np.float32(center + width * rng.normal(size=shape))
            queries[-1] = points[-1, -1]  # a distance of 0
            if sizes == (2, 4, 4, 2):  # on both sides of 0
                points[:, ::2] -= 2 * center
                queries[::2] -= 2 * center
            if num_devices == 4:
                points, queries = jnp.asarray(points), jnp.asarray(queries)
            what = ("nothing is remembered",) if sizes == before else ()
            what += ("four digits",) if center else ("each distance",)
            yield Case(points, queries, rtol=1e-4, atol=1e-5 * width, statements=what)
            before = sizes

    expect_like_solution(
        pairwise_distances,
        cases,
        value="each distance",
        layout="row d on device d",
        arguments="arguments stay",
        free={
            "error": "it raises none",
            "arrays": "asked for above",
            "collectives sent compiles": "none stated",
        },
    )
    points, queries = np.zeros((3, 2, 2), np.float32), np.zeros((2, 2), np.float32)
    seen = observe(distances_placed, points, queries)
    with statement("each distance"):
        expect_placed_result(seen, points)
    with statement("arguments stay"):
        expect_alive(seen)


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


@hidden("init_ensemble")
def cases_of_init_ensemble():
    def observed(number, members, sizes):
        seen = observe(init_ensemble, jax.random.key(number), members, sizes)
        with statement("a list of layers"):
            expect_shapes(seen, zero_layers(members, sizes))
        with statement("zero biases"):
            no_bias = not any(layer["b"].any() for layer in seen.value)
            expect(seen, no_bias, "Biases are not 0.")
        with statement("a key for each"):
            expect_independent(seen, standard_draws(seen.value))
        with statement("normal weights"):
            expect_normal(seen, standard_draws(seen.value))
        return seen

    seen, many = observed(3, 1, (2, 900)), 3 + 2**16  # in 16 bits this is 3
    half = jax.random.wrap_key_data(np.uint32([7, 3]))  # its last word is key 3's
    for text, key in ((f"{many}", jax.random.key(many)), ("7, 3", half)):
        other = observe(init_ensemble, key, 1, (2, 900))
        with statement("the key decides"):
            expect_shapes(other, zero_layers(1, (2, 900)))
            expect_other_weights(other, seen.value, f"3 and {text}")
    observed(9, 6, (1, 30, 30, 30))
    few = observe(init_ensemble, jax.random.key(11), 8, (1, 1, 1, 1))
    with statement("normal weights"):
        expect_shapes(few, zero_layers(8, (1, 1, 1, 1)))
        draws = np.concatenate([*standard_draws(few.value).values()])
        expect_normal(few, {("0 to 2", "0 to 7"): draws})
    sizes = (500, 500, *[2] * 11)  # many numbers, then many layers
    seen = observe(init_ensemble, jax.random.key(13), 2, sizes)
    with statement("a list of layers"):
        expect_shapes(seen, zero_layers(2, sizes))
    with statement("normal weights"):
        draws = standard_draws(seen.value)
        expect_normal(seen, {(0, device): draws[0, device] for device in (0, 1)})
    with statement("a key for each"):
        firsts = {}
        for (number, device), draw in standard_draws(seen.value).items():
            name = f"layer {number} of device {device}"
            firsts.setdefault(round(draw[0], 5), []).append(name)
        alike = [" and ".join(names) for names in firsts.values() if len(names) > 1]
        headline = f"The weights of {', '.join(alike[:1])} are alike."
        rows = {"seen": "draws in common", "expected": "independent draws"}
        expect(seen, not alike, headline, **rows)


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


@hidden("local_sgd_steps")
def cases_of_local_sgd_steps():
    def cases(rng):
        before = ()
        for num_devices, num_rows, width, lr, num_steps in (
            (1, 1, 2, 0.3, 1),
            (3, 5, 1, 0.07, 7),
            (3, 5, 1, 0.07, 7),
            (3, 5, 1, 0.002, 7),
            (3, 5, 1, 0.08, 9),
            (6, 2, 3, 0.01, 0),
        ):
            w, b, x, y = (
                np.float32(rng.normal(size=(num_devices, *shape)) * 2 + 0.5)
                for shape in ((width,), (), (num_rows, width), (num_rows,))
            )
            if num_devices == 6:
                w, b, x, y = map(jnp.asarray, (w, b, x, y))
            if lr == 0.08:
                x[1, 0] = np.nan  # this replica is lost, the others go on
            what = ("nothing is remembered",) if x.shape == before else ()
            what += ("each device descends",)
            yield Case({"w": w, "b": b}, x, y, lr, num_steps, statements=what)
            before = x.shape

    def trees(rng):
        def leaf(*shape):
            return np.float32(
                (rng.normal(size=shape) + 5) * 10.0 ** rng.integers(-3, 4)
            )

        for _ in range(2):
            yield Case({"b": leaf(3), "a": leaf(3, 2)})
        yield Case(leaf(1, 4))
        yield Case({"w": np.full((4, 2), -0.1, np.float32)})
        yield Case(
            (leaf(6, 1, 3), [jnp.asarray(leaf(6)), {"c": 1e6 * leaf(6, 2, 2, 2)}])
        )
        yield Case((leaf(4), 1e6 * leaf(4, 3), [leaf(4, 2)]))
        yield Case([-np.abs(leaf(8, 5)), leaf(8)])
        yield Case({"step": np.int32([0, 0, 0, 3]), "w": leaf(4) / 1e6})

    free = {"error": "it raises none", "arrays compiles": "none stated"}
    expect_like_solution(
        local_sgd_steps,
        cases,
        scales=(0, 1e-3, 1000),
        value="each device descends",
        layout="row d on device d",
        arguments="arguments stay",
        free=free | {"collectives sent": "asked for above"},
    )
    expect_like_solution(
        replica_spread,
        trees,
        value="the largest difference",
        arguments="arguments stay",
        free=free | {"layout collectives sent": "a number"},
    )
    params, x, y = replicas_and_data()
    expected = descended(params, x, y, 0.05, 20)
    seen = observe(steps_placed, params, x, y, 0.05, 20)
    with statement("each device descends"):
        expect_placed_result(seen, expected, rtol=1e-4, atol=1e-5)
    with statement("arguments stay"):
        expect_alive(seen)
    largest = max(np.abs(leaf - leaf.mean(0)).max() for leaf in expected.values())
    seen = observe(spread_placed, jax.tree.map(np.float32, expected))
    with statement("the largest difference"):
        expect_placed_result(seen, largest, rtol=1e-4)
    with statement("arguments stay"):
        expect_alive(seen)
    seen = observe(sent_by_steps, params, x, y, 0.05, 20)
    with statement("no communication"):
        headline = "The compiled program sends something."
        expect(seen, not seen.value, headline, seen="; ".join(seen.value or ()))
