"""Checks of lesson 1: one program on many devices, each row where it belongs."""

from __future__ import annotations

import itertools
import os

import jax
import jax.numpy as jnp
import numpy as np

from coursekit.checks import demo, hidden, visible
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
    pairwise_distances,
    parallel_predict,
    parallel_square,
    shard_batch,
)
from coursekit.observe import observe
from coursekit.outcomes import statement
from coursekit.processes import count_devices
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
    essential=["device count", "other variables"],
    others=[
        "other flags",
        "no old count",
        "below one",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_launch_env():
    kept, old = "--xla_cpu_enable_fast_math=false", f"{DEVICE_COUNT}2"
    seen = observe(launch_env, 4, {"HOME": "/home/ada", "XLA_FLAGS": f"{kept} {old}"})
    with statement("device count"):
        expect_child_devices(seen, 4)
    without_flags = observe(launch_env, 4, {"HOME": "/home/bob"})
    with statement("other variables"):
        expect_entries(seen, {"HOME": "/home/ada"})
        expect_entries(without_flags, {"HOME": "/home/bob"})
    with statement("other flags"):
        found = xla_flags(seen.value)
        rows = {"seen": " ".join(found), "expected": kept}
        expect(seen, kept in found, "A flag in XLA_FLAGS is gone.", **rows)
    with statement("no old count"):
        found = xla_flags(seen.value)
        rows = {"seen": " ".join(found), "expected": f"XLA_FLAGS without {old}"}
        expect(seen, old not in found, "The old device count is still there.", **rows)
    below = [observe(launch_env, number, {}) for number in (0, -3)]
    with statement("below one"):
        for refused in below:
            expect_error(refused, "ValueError")
    with statement("arguments stay"):
        expect_unchanged(seen)


@demo("launch_env")
def demo_of_launch_env():
    count = count_devices(launch_env(16, dict(os.environ)))
    print(f"A fresh process in the environment of launch_env(16, ...) has {count}")
    print(f"devices. This notebook's process still has {jax.device_count()}.")


def blocks_of(batch, num_devices):
    return jax.tree.leaves(shard_batch(batch, num_devices))


def tree_of(batch, num_devices):
    result = shard_batch(batch, num_devices)
    return jax.tree.map(lambda leaf: str(leaf.dtype), result)


@visible(
    "shard_batch",
    points=2,
    essential=["rows in order"],
    others=["same structure", "uneven batch", "arguments stay"],
)
def examples_of_shard_batch():
    x = np.arange(48, dtype=np.float32).reshape(16, 3)
    batch = {"x": x, "y": np.arange(16, dtype=np.int32)}
    cut = {"x": x.reshape(8, 2, 3), "y": batch["y"].reshape(8, 2)}
    dealt = {key: np.stack([a[d::8] for d in range(8)]) for key, a in batch.items()}
    causes = {"the rows were dealt out like cards, not cut in order": dealt}
    seen = observe(shard_batch, batch, 8)
    with statement("rows in order"):
        expect_close(seen, cut, mistakes=causes)
    with statement("arguments stay"):
        expect_unchanged(seen)
    quarters = x.reshape(4, 4, 3)
    nested, bare = observe(shard_batch, [{"x": x}, x], 4), observe(shard_batch, x, 4)
    with statement("same structure"):
        expect_shapes(seen, cut)
        expect_shapes(nested, [{"x": quarters}, quarters])
        expect_shapes(bare, quarters)
    uneven = observe(shard_batch, x[:15], 8)
    with statement("uneven batch"):
        expect_error(uneven, "ValueError")


@demo("shard_batch")
def demo_of_shard_batch():
    from coursekit.draw import draw_pmap

    num_devices = jax.device_count()
    images = np.random.default_rng(0).random((8 * num_devices, 784), np.float32)
    blocks = shard_batch({"image": images}, num_devices)
    means = jax.pmap(lambda block: block["image"].mean())(blocks)
    draw_pmap("mean", {"batch": blocks}, {"means": means})
    agree = np.allclose(np.mean(means), images.mean(), rtol=1e-4)
    print(f"{len(images)} images, cut by your function; each device takes a mean.")
    print("The mean of the means is the batch's mean:", agree)


def is_on_one_device(seen):
    return all(len(pieces) == 1 for pieces in seen.layout.values())


ON_ONE_DEVICE = {"jax.pmap runs on a device per row; here is one": is_on_one_device}
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
    alive = not any(seen.value["deleted"])
    expect(seen, alive, "An argument was donated or deleted.")


def square_placed(x):
    rows = placed(x)
    return {"result": parallel_square(rows), "deleted": deleted(rows)}


@visible(
    "parallel_square",
    points=1,
    essential=["squares", "one row per device"],
    others=["arguments stay", "nothing is remembered", "traceable"],
)
def examples_of_parallel_square():
    num_devices = jax.device_count()  # 8, unless yours are real
    x = np.arange(2 * num_devices, dtype=np.float32).reshape(num_devices, 2)
    seen = observe(parallel_square, x, traced=True)
    with statement("squares"):
        expect_close(seen, x**2)
    with statement("traceable"):
        expect_arrays(seen)
    with statement("one row per device"):
        expect_devices(seen, num_devices, causes=ON_ONE_DEVICE)
        expect_own_rows(seen, -1)
        expect_collectives(seen, {})
    with statement("arguments stay"):
        expect_unchanged(seen)


@demo("parallel_square")
def demo_of_parallel_square():
    from coursekit.draw import draw_array

    num_devices = jax.device_count()
    x = np.arange(2 * num_devices, dtype=np.float32).reshape(num_devices, 2)
    draw_array(parallel_square(x), "parallel_square(x), by your function")


def predict_placed(params, x, num_devices):
    mesh = jax.sharding.Mesh(jax.devices()[:num_devices], ("devices",))
    specs = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("devices")
    shardings = (jax.sharding.NamedSharding(mesh, spec) for spec in specs)
    params, x = map(jax.device_put, (params, x), shardings)
    result = parallel_predict(params, x, num_devices)
    return {"result": result, "deleted": deleted(params, x)}


@visible(
    "parallel_predict",
    points=2,
    essential=["predictions", "sharded by rows"],
    others=[
        "parameters broadcast",
        "arguments stay",
        "nothing is remembered",
        "traceable",
    ],
)
def examples_of_parallel_predict():
    rng, num_devices = np.random.default_rng(0), jax.device_count()
    w, b = np.float32(rng.normal(size=(7, 5))), np.arange(5, dtype=np.float32)
    x = np.float32(rng.normal(size=(3 * num_devices, 7)))
    params, product = {"w": w, "b": b}, np.float64(x) @ np.float64(w)
    mistakes = {"the bias was not added": product}
    seen = observe(parallel_predict, params, x, num_devices, traced=True)
    with statement("predictions"):
        expect_close(seen, product + b, rtol=1e-4, atol=1e-5, mistakes=mistakes)
    with statement("traceable"):
        expect_arrays(seen)
    with statement("parameters broadcast"):
        expect_arrays(seen, largest=num_devices * w.size - 1)
    with statement("sharded by rows"):
        where = {"the result": ("", ("devices",))}
        mesh = (num_devices,), ("devices",)
        expect_layout(seen, where, *mesh, causes=ALL_ON_ONE_DEVICE)
        expect_own_rows(seen, -1)
        expect_collectives(seen, {})
    with statement("arguments stay"):
        expect_unchanged(seen)


@demo("parallel_predict")
def demo_of_parallel_predict():
    from coursekit.draw import draw_array

    rng, num_devices = np.random.default_rng(0), jax.device_count()
    params = {"w": np.float32(rng.normal(size=(7, 5))), "b": np.zeros(5, np.float32)}
    x = np.float32(rng.normal(size=(3 * num_devices, 7)))
    result = parallel_predict(params, x, num_devices)
    draw_array(result, "parallel_predict(params, x), by your function")
    rows = len(x) // num_devices
    print(f"{len(x)} rows, {rows} on each device, and no device axis was needed.")


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


def steps_placed(params, x, y, lr, num_steps):
    params, x, y = placed((params, x, y))
    result = local_sgd_steps(params, x, y, lr, num_steps)
    return {"result": result, "deleted": deleted(params, x, y)}


@visible(
    "local_sgd_steps",
    points=3,
    essential=["own descent", "one row per device", "no communication"],
    others=["arguments stay", "nothing is remembered", "traceable"],
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
    with statement("own descent"):
        expect_close(seen, expected, rtol=1e-4, atol=1e-5, mistakes=mistakes)
    with statement("traceable"):
        expect_arrays(seen)
    with statement("one row per device"):
        expect_devices(seen, len(x), causes=ON_ONE_DEVICE)
        expect_own_rows(seen, -1)
    with statement("no communication"):
        expect_collectives(seen, {})
    with statement("arguments stay"):
        expect_unchanged(seen)


@demo("local_sgd_steps")
def demo_of_local_sgd_steps():
    from coursekit.draw import draw_replicas

    rng, num_devices = np.random.default_rng(0), jax.device_count()
    x = np.float32(rng.normal(size=(num_devices, 8, 1)))
    noise = 0.5 * rng.normal(size=(num_devices, 8))
    y = np.float32(2 * x[..., 0] - 1 + noise)
    zeros = np.zeros(num_devices, np.float32)
    averaged = apart = {"w": zeros[:, None], "b": zeros}
    slopes = [zeros]

    def mean_loss(params):  # of each model on all points
        lines = np.einsum("d,nb->dnb", params["w"][:, 0], x[..., 0])
        return np.mean((lines + params["b"][:, None, None] - y) ** 2, axis=(1, 2))

    for number in range(12):  # every fourth time all take the replicas' mean
        apart, averaged = (
            jax.tree.map(np.asarray, local_sgd_steps(params, x, y, 0.1, 5))
            for params in (apart, averaged)
        )
        slopes.append(averaged["w"][:, 0])
        if number % 4 == 3:
            averaged = jax.tree.map(lambda p: 0 * p + p.mean(axis=0), averaged)
            slopes.append(averaged["w"][:, 0])
    title = "Local SGD with your function: drift for 20 steps, average, drift again"
    draw_replicas(slopes, "slope w", title, xlabel="call or average")
    for name, params in (("never averaged", apart), ("averaged 3 times", averaged)):
        loss = mean_loss(params)
        print(f"{name}: loss on all points {loss.min():.2f} to {loss.max():.2f}")


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
        "traceable",
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
    with statement("distances"):
        expect_close(seen, np.sqrt(squares), rtol=1e-4, mistakes=mistakes)
    with statement("traceable"):
        expect_arrays(seen)
    with statement("one row per device"):
        expect_devices(seen, num_devices, causes=ON_ONE_DEVICE)
        expect_collectives(seen, {})
        expect_own_rows(seen, 0)
    cause = "right near 0, not near 1000: what is subtracted after squaring cancels"
    causes = {cause: lambda seen: np.allclose(seen.value, np.sqrt(squares), atol=2)}
    seen_far = observe(pairwise_distances, far, far_queries)
    with statement("accurate far from 0"):
        expect_close(seen_far, np.sqrt(squares), rtol=1e-4, causes=causes)
    with statement("arguments stay"):
        expect_unchanged(seen)
        expect_unchanged(seen_far)


@demo("pairwise_distances")
def demo_of_pairwise_distances():
    rng, num_devices = np.random.default_rng(0), jax.device_count()
    centres = np.float32(rng.normal(size=(10, 16)))  # of ten classes

    def drawn(*shape):
        labels = rng.integers(10, size=shape)
        noise = rng.normal(size=(*shape, 16))
        return np.float32(centres[labels] + noise), labels

    (points, labels), (queries, wanted) = drawn(num_devices, 100), drawn(200)
    distances = np.asarray(pairwise_distances(points, queries))
    nearest = distances.reshape(-1, len(queries)).argmin(axis=0)
    share = np.mean(labels.ravel()[nearest] == wanted)
    print(f"{labels.size} points of ten classes, {labels.shape[1]} on each device.")
    print(f"The nearest point, by your distances, has the class of {share:.0%}")
    print(f"of {len(queries)} new points.")


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
    essential=["one dict per layer", "independent draws", "the key decides"],
    others=["weight scale", "zero biases", "arguments stay"],
)
def examples_of_init_ensemble():
    sizes, members = (64, 32, 128), jax.device_count()
    seen = observe(init_ensemble, jax.random.key(3), members, sizes)
    with statement("one dict per layer"):
        expect_shapes(seen, zero_layers(members, sizes))
    with statement("independent draws"):
        expect_independent(seen, standard_draws(seen.value), causes_of_likeness())
    with statement("weight scale"):
        expect_scale(seen, standard_draws(seen.value), causes_of_scale())
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


@demo("init_ensemble")
def demo_of_init_ensemble():
    from coursekit.draw import draw_replicas

    num_devices = jax.device_count()
    layers = init_ensemble(jax.random.key(0), num_devices, (2, 64, 64, 1))
    places = np.linspace(-3, 3, 61, dtype=np.float32)
    out = np.stack([places, np.ones(61, np.float32)], axis=-1)[None]
    for number, layer in enumerate(layers):
        out = out @ np.asarray(layer["w"]) + np.asarray(layer["b"])[:, None]
        out = out if number == 2 else np.tanh(out)
    title = "Your members before training: a function for each device"
    draw_replicas(out[..., 0].T, "prediction", title, xlabel="input number")
