"""Checks of lesson 1: one program on many devices, each row where it belongs."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from coursekit.checks import hidden, visible
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
from coursekit.expect_program import (
    expect_arrays,
    expect_collectives,
    expect_devices,
    expect_layout,
    expect_own_rows,
)
from coursekit.hidden_cases import Case
from coursekit.learner import (
    init_ensemble,
    launch_env,
    local_sgd_steps,
    make_parallel_predict,
    pairwise_distances,
    shard_batch,
)
from coursekit.observe import num_compiles, observe
from coursekit.outcomes import statement
from coursekit.reference_checks import expect_like_solution, expect_own_share


def blocks_of(batch, num_devices):  # dtypes are another statement
    blocks = jax.tree.leaves(shard_batch(batch, num_devices))
    return [np.asarray(block, np.float32) for block in blocks]


def dtypes_of_blocks(batch, num_devices):
    result = shard_batch(batch, num_devices)
    return jax.tree.map(lambda leaf: str(leaf.dtype), result)


def in_dtypes_of(value, wanted):  # where it has the structure of what is wanted
    try:
        return jax.tree.map(lambda was, leaf: leaf.astype(was.dtype), value, wanted)
    except (ValueError, AttributeError):
        return wanted


@visible(
    "shard_batch",
    points=2,
    essential=["rows in order"],
    others=["same structure", "uneven batch", "arguments stay"],
)
def examples_of_shard_batch():
    x = np.arange(72, dtype=np.float32).reshape(24, 3)
    batch = {"x": x, "y": np.arange(24, dtype=np.int32)}
    calls = {number: observe(shard_batch, batch, number) for number in (8, 4, 12)}
    with statement("rows in order"):
        for number, seen in calls.items():  # 12: more than there are devices
            size = 24 // number
            cut = {
                key: a.reshape(number, size, *a.shape[1:]) for key, a in batch.items()
            }
            dealt = {
                key: np.stack([a[d::number] for d in range(number)])
                for key, a in batch.items()
            }
            causes = {"the rows were dealt out like cards, not cut in order": dealt}
            expect_close(seen, in_dtypes_of(seen.value, cut), mistakes=causes)
    with statement("arguments stay"):
        expect_unchanged(calls[8])
    trees = {"x": x, "y": batch["y"]}, ({"x": [x]}, x), x
    trees = [(observe(dtypes_of_blocks, tree, 4), tree) for tree in trees]
    with statement("same structure"):
        for seen, tree in trees:
            expect_close(seen, jax.tree.map(lambda leaf: str(leaf.dtype), tree))
            headline = "Another container comes back than was given."
            expect(seen, type(seen.value) in (type(tree), str), headline)
    uneven = [
        observe(shard_batch, {"x": few}, 8) for few in (x[:15], jnp.asarray(x[:15]))
    ]
    with statement("uneven batch"):
        for seen in uneven:
            expect_error(seen, "ValueError")


@hidden("shard_batch")
def cases_of_shard_batch():
    def rows(rng, count, *shape, dtype=np.float32):
        return np.asarray(rng.normal(size=(count, *shape)) * 50, dtype)

    def batches(rng):
        yield rows(rng, 5), 1
        yield (rows(rng, 3, 1), [rows(rng, 3, dtype=np.int32)]), 3
        few, many = rows(rng, 12, dtype=np.int32), jnp.asarray(rows(rng, 12, 2))
        yield {"b": [many], "a": (few, {"c": few})}, 6
        yield [rows(rng, 8, 2, 1, 3, dtype=np.uint8), rows(rng, 8)], 8
        yield rows(rng, 72, dtype=np.int32), 12

    def cases_of_blocks(rng):
        yield from (Case(*batch) for batch in batches(rng))
        for count, num_devices in ((2, 5), (7, 3), (22, 4)):
            given = rows(rng, count, num_devices)
            yield Case([{"x": given}], num_devices)
            yield Case({"x": jnp.asarray(given)}, num_devices)

    def cases_of_trees(rng):
        yield from (Case(*batch) for batch in batches(rng))

    free = {"layout collectives sent arrays compiles": "nothing is placed"}
    expect_like_solution(
        blocks_of,
        cases_of_blocks,
        value="rows in order",
        error="uneven batch",
        arguments="arguments stay",
        free=free,
    )
    expect_like_solution(
        dtypes_of_blocks,
        cases_of_trees,
        value="same structure",
        arguments="arguments stay",
        free=free | {"error": "asked for above"},
    )


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
    others = (flag for flag in flags if not flag.startswith(DEVICE_COUNT))
    return " ".join(sorted(others))


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
    essential=["device count", "other variables", "other flags"],
    others=["no old count", "below one", "arguments stay"],
)
def examples_of_launch_env():
    kept, old = (
        "--xla_cpu_enable_fast_math=false",
        [f"{DEVICE_COUNT}{n}" for n in (2, 16)],
    )
    flags = f"{old[0]} {kept} {old[1]}"
    seen = observe(launch_env, 4, {"HOME": "/home/ada", "XLA_FLAGS": flags})
    without_flags = observe(launch_env, 4, {"HOME": "/home/bob"})
    with statement("device count"):
        expect_child_devices(seen, 4)
        expect_entries(without_flags, {})  # it raises nothing
    with statement("other variables"):
        expect_entries(seen, {"HOME": "/home/ada"})
        expect_entries(without_flags, {"HOME": "/home/bob"})
    with statement("other flags"):
        found = xla_flags(seen.value)
        rows = {"seen": " ".join(found), "expected": kept}
        expect(seen, kept in found, "A flag in XLA_FLAGS is gone.", **rows)
    with statement("no old count"):
        found = xla_flags(seen.value)
        for flag in old:
            rows = {"seen": " ".join(found), "expected": f"XLA_FLAGS without {flag}"}
            headline = "An earlier device count is still there."
            expect(seen, flag not in found, headline, **rows)
    below = [observe(launch_env, number, {}) for number in (0, -3)]
    with statement("below one"):
        for refused in below:
            expect_error(refused, "ValueError")
    with statement("arguments stay"):
        expect_unchanged(seen)


@hidden("launch_env")
def cases_of_launch_env():
    fast, dump = "--xla_cpu_enable_fast_math=true", "--xla_dump_hlo_as_text"

    def cases_of_flags(rng):
        for num_devices, flags in (
            (3, ""),
            (12, f"{DEVICE_COUNT}2"),
            (6, f"  {DEVICE_COUNT}16   {fast} {DEVICE_COUNT}2"),
            (1000, f"{fast}  {dump}"),
            (7, f"{dump} {fast} {DEVICE_COUNT}70"),
            (5, f"--xla_dump_to=/tmp/device_count=2 {DEVICE_COUNT}2"),
        ):
            yield Case(num_devices, {"A": "b c", "XLA_FLAGS": flags})
        yield Case(1, {"A": "b c"})
        yield Case(2, {})

    def cases_of_counts(rng):
        yield from cases_of_flags(rng)
        for num_devices in (0, -1, -25):
            yield Case(num_devices, {"XLA_FLAGS": fast})

    def cases_of_variables(rng):
        env = {"LANG": f"{rng.integers(99)}", "A": "b c", "NO": ""}
        for flags in ("", fast, f"{DEVICE_COUNT}2"):
            yield Case(3, env | {"XLA_FLAGS": flags})
        yield Case(1, env)
        yield Case(2, {})

    seen = observe(launch_env, 3, {"PATH": "/bin"})
    with statement("device count"):
        expect_child_devices(seen, 3)
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
        value="other variables",
        arguments="arguments stay",
        free=free | {"error": "asked for below"},
    )
    expect_like_solution(
        counts_after_launch,
        cases_of_counts,
        value="no old count",
        error="below one",
        arguments="arguments stay",
        free=free,
    )
    expect_like_solution(
        other_flags_after_launch,
        cases_of_flags,
        value="other flags",
        arguments="arguments stay",
        free=free | {"error": "asked for above"},
    )


def is_on_one_device(seen):
    return all(len(pieces) == 1 for pieces in seen.layout.values())


def is_on_all_devices(seen):
    return all(len(pieces) == jax.device_count() for pieces in seen.layout.values())


ON_ONE_DEVICE = {"one device has all rows: jax.vmap, or no map": is_on_one_device}
ALL_ON_ONE_DEVICE = {"all rows are on one device: map over a mesh": is_on_one_device}


def placed(tree):  # row d on device d
    return jax.pmap(lambda rows: rows)(tree)


def deleted(*arrays):
    return [leaf.is_deleted() for leaf in jax.tree.leaves(arrays)]


def expect_placed_result(seen, expected, **tolerance):  # whatever was deleted
    expect_result(seen)
    wanted = {"result": expected, "deleted": seen.value["deleted"]}
    expect_close(seen, wanted, **tolerance)


def expect_alive(seen):
    if seen.error is None:  # which other statements are about
        alive = not any(seen.value["deleted"])
        expect(seen, alive, "An argument was donated or deleted.")


def make_and_serve(params, x, num_devices):
    return make_parallel_predict(num_devices)(params, x)


def predict_placed(params, x, num_devices):
    mesh = jax.sharding.Mesh(jax.devices()[:num_devices], ("devices",))
    specs = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("devices")
    shardings = (jax.sharding.NamedSharding(mesh, spec) for spec in specs)
    params, x = map(jax.device_put, (params, x), shardings)
    result = make_and_serve(params, x, num_devices)
    return {"result": result, "deleted": deleted(params, x)}


def serve_twice(params, x, num_devices):  # by one function, after another one
    alone = make_and_serve(params, x, num_devices)
    serve = make_parallel_predict(num_devices)
    jax.block_until_ready(serve(jax.tree.map(np.zeros_like, params), 0 * x))
    compiled = num_compiles()
    result = jax.block_until_ready(serve(params, x))
    compiled = num_compiles() - compiled
    return {"result": result, "alone": alone, "compiled": compiled}


def expect_compiled_once(seen):
    expect_result(seen)
    headline = "A second batch of the same shape compiled a program again."
    expected = "jax.jit is called once, before serve, and what it returns is kept"
    expect(seen, not seen.value["compiled"], headline, expected=expected)


def expect_own_batch(seen):
    expect_result(seen)
    result, alone = seen.value["result"], seen.value["alone"]
    headline = "serve gives another result where it has served other parameters before."
    expect(seen, np.allclose(result, alone, rtol=1e-3, atol=1e-3), headline)


@visible(
    "make_parallel_predict",
    points=3,
    essential=["predictions", "sharded by rows"],
    others=[
        "parameters broadcast",
        "compiled once",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_make_parallel_predict():
    rng, num_devices = np.random.default_rng(0), jax.device_count()
    w, b = np.float32(rng.normal(size=(7, 5))), np.arange(5, dtype=np.float32)
    x = np.float32(rng.normal(size=(3 * num_devices, 7)))
    params, product = {"w": w, "b": b}, np.float64(x) @ np.float64(w)
    mistakes = {"the bias was not added": product}
    seen = observe(make_and_serve, params, x, num_devices, traced=True)
    few = max(1, num_devices // 2)  # devices: not all of them
    seen_few = observe(make_and_serve, params, x, few)
    with statement("predictions"):
        for one in (seen, seen_few):
            expect_close(one, product + b, rtol=1e-4, atol=1e-5, mistakes=mistakes)
    with statement("parameters broadcast"):
        copies = num_devices * w.size
        cause = "one array holds a copy of w for each device: P() makes the copies"
        is_so = {cause: lambda seen: copies in map(np.prod, seen.array_shapes)}
        expect_arrays(seen, largest=copies - 1, causes=is_so)
    with statement("sharded by rows"):
        where = {"the result": ("", ("devices",))}
        every = {"it runs on all devices, whatever num_devices is": is_on_all_devices}
        for one, number, causes in (
            (seen, num_devices, ALL_ON_ONE_DEVICE),
            (seen_few, few, every),
        ):
            expect_layout(one, where, (number,), ("devices",), causes=causes)
        expect_own_rows(seen, -1)
        expect_collectives(seen, {})
    kept = observe(predict_placed, params, x, num_devices)
    with statement("arguments stay"):
        expect_unchanged(seen)
        expect_alive(kept)
    second = observe(serve_twice, params, x, num_devices)
    with statement("compiled once"):
        expect_compiled_once(second)
    with statement("predictions", "nothing is remembered"):
        expect_own_batch(second)


@hidden("make_parallel_predict")
def cases_of_make_parallel_predict():
    def cases(rng):
        before, x = (), None
        for sizes in (
            (1, 1, 1, 1),
            (3, 3, 2, 5),
            (3, 3, 2, 5),
            (6, 30, 7, 1),
            (8, 16, 11, 3),
            (3, 9, 3, 3),
            (2, 10, 4, 2),
        ):
            num_devices, num_rows, n_in, n_out = sizes
            w, b, other = (
                np.float32(rng.normal(size=shape) * rng.choice([0.01, 1, 300]))
                for shape in ((n_in, n_out), n_out, (num_rows, n_in))
            )
            x = x if sizes == before else other  # other parameters alone
            before = sizes
            params = {"w": w, "b": b}
            given = jax.tree.map(jnp.asarray, params) if num_devices == 6 else params
            yield Case(given, x, num_devices)

    expect_like_solution(
        make_and_serve,
        cases,
        value="predictions",
        layout="sharded by rows",
        own_rows="sharded by rows",
        arguments="arguments stay",
        memory="nothing is remembered",
        free={
            "error": "it raises none",
            "arrays": "asked for above",
            "compiles": "of one function, below",
            "collectives sent": "none stated",
        },
    )
    params = {"w": np.ones((7, 9), np.float32), "b": np.ones(9, np.float32)}
    with statement("sharded by rows"):
        expect_own_share(make_and_serve, params, np.ones((64, 7), np.float32), 8)
    params = {"w": np.eye(2, dtype=np.float32), "b": np.ones(2, np.float32)}
    x = np.ones((6, 2), np.float32)
    seen = observe(predict_placed, params, x, 3)
    with statement("predictions"):
        expect_placed_result(seen, x + 1)
    with statement("arguments stay"):
        expect_alive(seen)
    second = observe(serve_twice, params, x, 3)
    with statement("compiled once"):
        expect_compiled_once(second)
    with statement("predictions", "nothing is remembered"):
        expect_own_batch(second)
    # Copies for each row of a block: in a mapped function, and more than devices.
    params = {"w": np.ones((24, 20), np.float32), "b": np.ones(20, np.float32)}
    x = np.ones((36, 24), np.float32)
    seen = observe(make_and_serve, params, x, 3, traced=True)
    with statement("parameters broadcast"):
        expect_arrays(seen, largest=3 * 24 * 20 - 1)


def descended(params, x, y, lr, num_steps, average=False):  # in 64 bits
    w, b = np.float64(params["w"]), np.float64(params["b"])
    x, y = (np.broadcast_to(a, (len(w), *a.shape[1:])) for a in (x, y))
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
    data = np.float32(np.random.default_rng(4).normal(size=(num_devices, 7, 4)))
    start, data = data[:, 0], data[:, 1:]
    return {"w": start[:, :3], "b": start[:, 3]}, data[..., :3], data[..., 3]


def steps_placed(params, x, y, lr, num_steps):
    params, x, y = placed((params, x, y))
    result = local_sgd_steps(params, x, y, lr, num_steps)
    return {"result": result, "deleted": deleted(params, x, y)}


@visible(
    "local_sgd_steps",
    points=3,
    essential=["own descent", "one row per device", "no communication"],
    others=["arguments stay", "nothing is remembered"],
)
def examples_of_local_sgd_steps():
    params, x, y = replicas_and_data()
    first = {name: 0 * rows + rows[:1] for name, rows in params.items()}
    mistakes = {
        "gradients were averaged": descended(params, x, y, 0.05, 20, average=True),
        "the gradient was added": descended(params, x, y, -0.05, 20),
        "the step used 0.1 in place of lr": descended(params, x, y, 0.1, 20),
        "one step is missing": descended(params, x, y, 0.05, 19),
        "there is one step too many": descended(params, x, y, 0.05, 21),
        "all steps use the gradient of the first": descended(params, x, y, 1, 1),
        "all replicas started from row 0": descended(first, x, y, 0.05, 20),
        "all replicas used the data of row 0": descended(
            params, x[:1], y[:1], 0.05, 20
        ),
    }
    expected = descended(params, x, y, 0.05, 20)
    few = max(1, len(x) // 2)  # rows: fewer than devices
    rows, rows_expected = (
        jax.tree.map(lambda a: a[:few], one) for one in ((params, x, y), expected)
    )
    seen = observe(local_sgd_steps, params, x, y, 0.05, 20, traced=True)
    seen_few = observe(local_sgd_steps, *rows, 0.05, 20)
    with statement("own descent"):
        expect_close(seen, expected, rtol=1e-4, atol=1e-5, mistakes=mistakes)
        if seen_few.error is None:  # the number of rows is the next one's subject
            expect_close(seen_few, rows_expected, rtol=1e-4, atol=1e-5)
    with statement("one row per device"):
        for one, number in ((seen, len(x)), (seen_few, few)):
            expect_devices(one, number, causes=ON_ONE_DEVICE)
        expect_own_rows(seen, -1)
    with statement("no communication"):
        expect_collectives(seen, {})
    kept = observe(steps_placed, *rows, 0.05, 20)
    with statement("arguments stay"):
        expect_unchanged(seen)
        expect_alive(kept)


@hidden("local_sgd_steps")
def cases_of_local_sgd_steps():
    def cases(rng):
        for num_devices, num_rows, width, rates, num_steps in (
            (1, 1, 2, [0.3], 1),
            (3, 5, 1, [0.07], 7),
            (3, 5, 1, [0.07, 0.002], 7),
            (6, 2, 3, [0.01], 2),
        ):
            w, b, x, y = (
                np.float32(rng.normal(size=(num_devices, *shape)) * 2 + 0.5)
                for shape in ((width,), (), (num_rows, width), (num_rows,))
            )
            if num_devices == 6:
                w, b, x, y = map(jnp.asarray, (w, b, x, y))
            for lr in rates:
                yield Case({"w": w, "b": b}, x, y, lr, num_steps)

    expect_like_solution(
        local_sgd_steps,
        cases,
        scales=(0, 1e-3, 1000),
        value="own descent",
        layout="one row per device",
        own_rows="one row per device",
        arguments="arguments stay",
        memory="nothing is remembered",
        free={
            "error": "it raises none",
            "arrays compiles": "none stated",
            "collectives sent": "asked for above",
        },
    )
    w, x = np.ones((8, 3), np.float32), np.ones((8, 9, 3), np.float32)
    with statement("one row per device"):
        params = {"w": w, "b": w[:, 0]}
        expect_own_share(local_sgd_steps, params, x, x[..., 0], 0.05, 2)
    params, x, y = replicas_and_data()
    expected = descended(params, x, y, 0.05, 20)
    seen = observe(steps_placed, params, x, y, 0.05, 20)
    with statement("own descent"):
        expect_placed_result(seen, expected, rtol=1e-4, atol=1e-5)
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


def expect_scale(seen, draws, causes=None):
    groups = {f"layer {n} of device {d}": draw for (n, d), draw in draws.items()}
    for layer in sorted({number for number, _ in draws}):
        parts = [draw for (number, _), draw in draws.items() if number == layer]
        groups[f"layer {layer}"] = np.concatenate(parts)
    for name, draw in groups.items():
        mean, std, error = draw.mean(), draw.std(), 6 / np.sqrt(draw.size)
        headline = f"The weights of {name} have another mean or deviation."
        rows = {
            "seen": f"mean {mean:.2f} / sqrt(n_in), deviation {std:.2f} / sqrt(n_in)",
            "expected": "mean 0, deviation 1 / sqrt(n_in)",
        }
        holds = abs(mean) < error and abs(std - 1) < error
        expect(seen, holds, headline, causes=causes, **rows)


def expect_independent(seen, draws, causes=None):
    numbers = {name: np.unique(np.abs(draw).round(5)) for name, draw in draws.items()}
    scaled = {name: draw / np.sqrt(np.mean(draw**2)) for name, draw in draws.items()}
    scaled = {name: np.unique(np.abs(draw).round(5)) for name, draw in scaled.items()}
    for a, b in itertools.combinations(draws, 2):
        size = min(draws[a].size, draws[b].size)
        alike = np.corrcoef(draws[a][:size], draws[b][:size])[0, 1]
        pairs = [(found[a], found[b]) for found in (numbers, scaled)]
        share = max(np.intersect1d(*p).size / min(map(np.size, p)) for p in pairs)
        names = " and ".join(f"layer {n} of device {d}" for n, d in (a, b))
        was = f"{share:.0%} of the magnitudes in common, correlation {alike:.2f}"
        holds = not (share > 0.2 or abs(alike) * np.sqrt(size) > 6)
        headline, wanted = f"The weights of {names} are alike.", "independent draws"
        expect(seen, holds, headline, causes=causes, seen=was, expected=wanted)
    for (number, device), draw in draws.items():
        distinct = numbers[number, device].size
        headline = f"Weights of layer {number} of device {device} repeat."
        was, wanted = f"{distinct} distinct numbers", "independent draws"
        holds = distinct >= 0.8 * draw.size
        expect(seen, holds, headline, causes=causes, seen=was, expected=wanted)


def equal_weights(layers, others):  # of which layers and devices
    draws, more = standard_draws(layers), standard_draws(others)
    return [place for place in draws if np.allclose(draws[place], more[place])]


def expect_zero_biases(seen):
    for number, layer in enumerate(seen.value):
        headline = f"The biases of layer {number} are not zero."
        expect(seen, not layer["b"].any(), headline)


def keys_left(keys, sizes):
    keys = placed(keys)
    init_ensemble(keys, sizes)
    return {"deleted": deleted(keys)}


def expect_by_key(seen, layer, device, equal, is_same):
    headline = f"Another key gave the same weights to layer {layer} of device {device}."
    if is_same:
        headline = (
            f"The same key gave other weights to layer {layer} of device {device}."
        )
    expect(seen, ((layer, device) in equal) == is_same, headline)


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


ONE_DEVICE_DRAWS = {"one device drew all members: map over the keys": is_on_one_device}


def keys_of(number, num_devices):
    return jax.random.split(jax.random.key(number), num_devices)


@visible(
    "init_ensemble",
    points=3,
    essential=[
        "one dict per layer",
        "one row per device",
        "independent draws",
        "the key decides",
    ],
    others=["weight scale", "arguments stay"],
)
def examples_of_init_ensemble():
    sizes, members = (64, 32, 128), jax.device_count()
    keys = keys_of(3, members)
    seen = observe(init_ensemble, keys, sizes, traced=True)
    with statement("one dict per layer"):
        expect_shapes(seen, zero_layers(members, sizes))
    with statement("one row per device"):
        expect_devices(seen, members, causes=ONE_DEVICE_DRAWS)
        expect_own_rows(seen, 0)
        expect_collectives(seen, {})
    with statement("independent draws"):
        expect_independent(seen, standard_draws(seen.value), causes_of_likeness())
    with statement("weight scale"):
        expect_scale(seen, standard_draws(seen.value), causes_of_scale())
        expect_zero_biases(seen)
    kept = members // 2  # devices whose keys stay
    keys = jnp.concatenate([keys[:kept], keys_of(4, members)[kept:]])
    other = observe(init_ensemble, keys, sizes)
    with statement("the key decides"):
        expect_shapes(other, zero_layers(members, sizes))
        equal = equal_weights(seen.value, other.value)
        for layer, device in standard_draws(other.value):
            expect_by_key(other, layer, device, equal, device < kept)
    few = max(1, members // 2)
    seen_few = observe(init_ensemble, keys_of(5, few), (2, 3, 4, 1))
    with statement("one dict per layer"):
        expect_shapes(seen_few, zero_layers(few, (2, 3, 4, 1)))
    kept = observe(keys_left, keys_of(5, few), (2, 3))
    with statement("arguments stay"):
        expect_unchanged(seen)
        expect_alive(kept)


@hidden("init_ensemble")
def cases_of_init_ensemble():
    def compiled(_):
        yield Case(keys_of(2, 8), (9, 8, 7))

    free = {"value error": "each answer draws in its own way"}
    free |= {"layout collectives sent arrays compiles arguments": "elsewhere"}
    how = {"compiled": True, "scales": (), "free": free}
    expect_like_solution(init_ensemble, compiled, own_rows="one row per device", **how)
    sizes, keys = (1, 120, 30, 30, 30), keys_of(9, 6)
    seen = observe(init_ensemble, keys, sizes, traced=True)
    with statement("one dict per layer"):
        expect_shapes(seen, zero_layers(6, sizes))
    with statement("one row per device"):
        expect_devices(seen, 6)
        expect_own_rows(seen, 0)
        expect_collectives(seen, {})
    with statement("independent draws"):
        expect_independent(seen, standard_draws(seen.value))
    with statement("weight scale"):
        expect_scale(seen, standard_draws(seen.value))
        expect_zero_biases(seen)
    seen = observe(keys_left, keys_of(5, 2), (2, 3))
    with statement("arguments stay"):
        expect_result(seen)
        expect_alive(seen)
    few = observe(init_ensemble, keys_of(11, 8), (1, 1, 1, 1))
    with statement("weight scale"):
        expect_shapes(few, zero_layers(8, (1, 1, 1, 1)))
        draws = np.concatenate([*standard_draws(few.value).values()])
        expect_scale(few, {("0 to 2", "0 to 7"): draws})


def distances_placed(points, queries):
    points, queries = placed(points), jnp.asarray(queries)
    result = pairwise_distances(points, queries)
    return {"result": result, "deleted": deleted(points, queries)}


@visible(
    "pairwise_distances",
    points=3,
    essential=["distances", "one row per device"],
    others=[
        "accurate far from 0",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_pairwise_distances():
    rng, num_devices = np.random.default_rng(1), jax.device_count()
    points = np.float32(rng.normal(size=(num_devices, 4, 3)))
    queries = np.float32(rng.normal(size=(5, 3)))
    far, far_queries = points + 1000, queries + 1000
    far[:, ::2], far_queries[::2] = points[:, ::2] - 1000, queries[::2] - 1000
    gaps, far_gaps = (
        np.float64(ps)[:, :, None] - np.float64(qs)
        for ps, qs in ((points, queries), (far, far_queries))
    )
    squares, far_squares = (gaps**2).sum(-1), (far_gaps**2).sum(-1)
    mistakes = {
        "the square root is missing": squares,
        "absolute differences were added up": np.abs(gaps).sum(-1),
    }
    seen = observe(pairwise_distances, points, queries, traced=True)
    few = max(1, num_devices // 2)  # rows: fewer than devices
    seen_few = observe(pairwise_distances, points[:few], queries)
    with statement("distances"):
        expect_close(seen, np.sqrt(squares), rtol=1e-4, mistakes=mistakes)
        if seen_few.error is None:  # the number of rows is the next one's subject
            expect_close(seen_few, np.sqrt(squares[:few]), rtol=1e-4)
    with statement("one row per device"):
        for one, number in ((seen, num_devices), (seen_few, few)):
            expect_devices(one, number, causes=ON_ONE_DEVICE)
        expect_collectives(seen, {})
        expect_own_rows(seen, 0)
    cause = "right near 0, not near 1000: what is subtracted after squaring cancels"

    def cancels(seen_far):
        pairs = (seen, squares, 1e-3), (seen_far, far_squares, 2)
        return all(np.allclose(one.value, want**0.5, atol=a) for one, want, a in pairs)

    seen_far = observe(pairwise_distances, far, far_queries)
    with statement("accurate far from 0"):
        wanted = np.sqrt(far_squares)
        expect_close(seen_far, wanted, rtol=1e-4, causes={cause: cancels})
    kept = observe(distances_placed, points, queries)
    with statement("arguments stay"):
        expect_unchanged(seen)
        expect_alive(kept)


@hidden("pairwise_distances")
def cases_of_pairwise_distances():
    def cases(rng):
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
            what = "accurate far from 0" if center else "distances"
            # Near 0, a distance of 0 may be what expanding the square leaves of it.
            close = {"rtol": 1e-4, "atol": (1e-5 if center else 1e-2) * width}
            yield Case(points, queries, **close, statements=what)

    expect_like_solution(
        pairwise_distances,
        cases,
        value="distances",
        layout="one row per device",
        own_rows="one row per device",
        arguments="arguments stay",
        memory="nothing is remembered",
        free={
            "error": "it raises none",
            "arrays": "asked for above",
            "collectives sent compiles": "none stated",
        },
    )
    points, queries = np.zeros((8, 9, 5), np.float32), np.zeros((11, 5), np.float32)
    with statement("one row per device"):
        expect_own_share(pairwise_distances, points, queries)
    points, queries = np.zeros((3, 2, 2), np.float32), np.zeros((2, 2), np.float32)
    seen = observe(distances_placed, points, queries)
    with statement("distances"):
        expect_placed_result(seen, points)
    with statement("arguments stay"):
        expect_alive(seen)
