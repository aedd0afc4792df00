"""Checks of lesson 3: eight devices take the step of one on the whole batch."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit import tracing
from coursekit.checks import hidden, visible
from coursekit.expect import (
    expect,
    expect_close,
    expect_error,
    expect_result,
    expect_shapes,
)
from coursekit.expect_program import (
    expect_arrays,
    expect_collectives,
    expect_devices,
    expect_moved,
    expect_one_sync,
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
    local_stats,
    make_optimizer,
    mlp_data,
    moving_average,
    optimizer_step,
    pad_and_shard,
    pad_rows,
    replicate,
    shard_map_step,
    train_step,
    unreplicate,
    weighted_loss,
)
from coursekit.observe import observe
from coursekit.outcomes import statement
from coursekit.reference_checks import expect_like_solution
from coursekit.references import (
    reference_adamw,
    reference_clip,
    reference_perceptron,
    reference_sgd,
)

EIGHT_ROWS = np.arange(24, dtype=np.float32).reshape(8, 3)


def random_numbers(rng, dtype, *shape):  # with all bits of their dtype
    bits = rng.integers(-(2**31), 2**31, shape)
    return (bits if jnp.issubdtype(dtype, jnp.integer) else bits / 2**20).astype(dtype)


def num_lost(*trees):  # arrays that were donated or deleted
    return sum(leaf.is_deleted() for leaf in jax.tree.leaves(trees))


def expect_none_lost(seen):  # by what returns their number last
    expect_result(seen)
    headline = "Arrays were donated or deleted."
    expect(seen, not seen.value[-1], headline, expected="none")


def round_trip(tree, num_devices):
    given = jax.tree.map(jnp.asarray, tree)
    stacked = jax.tree.map(jnp.asarray, replicate(given, num_devices))
    first = jax.tree.map(np.asarray, unreplicate(stacked))
    return first, num_lost(given, stacked)


def unreplicate_placed(rows, mesh_shape, *axes):  # rows that lie on a mesh
    devices = np.reshape(jax.devices()[: np.prod(mesh_shape)], mesh_shape)
    mesh = Mesh(devices[::-1], ("i", "j")[: devices.ndim])
    placed = jax.device_put(rows, NamedSharding(mesh, P(*axes)))
    return jax.tree.map(np.asarray, unreplicate([placed]))


@visible(
    "replicate",
    points=1,
    essential=["a row on each device", "the first replica"],
    others=[
        "dtypes stay",
        "too many replicas",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_replicate():
    there = jax.device_count()
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    cause = "a stack is one array in one place: pmap, or a sharding, spreads its rows"
    causes = {cause: lambda seen: len(seen.layout.get('["w"]', ())) < 2}
    seen = observe(replicate, {"w": w}, there // 2)
    with statement("a row on each device"):
        expect_devices(seen, there // 2, causes=causes)
        expect_close(seen, {"w": np.stack([w] * (there // 2))})
    tree = {"w": w, "more": [np.int8(7), (np.uint8([1, 2]), np.float16(0.5))]}
    given, wanted = {"lr": 0.25, "n": 3}, {"lr": np.float32(0.25), "n": np.int32(3)}
    seen = observe(replicate, tree | given, there)
    with statement("a row on each device"):
        expect_devices(seen, there, causes=causes)
    rows = jax.tree.map(lambda leaf: np.stack([leaf] * there), tree | wanted)
    with statement("dtypes stay"):
        expect_close(seen, rows)
    for many in (there + 1, 2 * there):
        seen = observe(replicate, tree, many)
        with statement("too many replicas"):
            expect_error(seen, "ValueError", mentions=[many, there])
    causes = {
        "the replicas were averaged": {"a": EIGHT_ROWS.mean(0)},
        "that is the last replica": {"a": EIGHT_ROWS[-1]},
    }
    seen = observe(unreplicate, {"a": EIGHT_ROWS})
    with statement("the first replica"):
        expect_close(seen, {"a": EIGHT_ROWS[0]}, mistakes=causes)


@hidden("replicate")
def cases_of_replicate():
    def cases(rng):
        some = functools.partial(random_numbers, rng)
        yield Case([some("f4", 2) > 0, some("f2")], 1)
        yield Case(some("i1", 3, 1), 3)
        yield Case(some("i1", 3, 1), 3, statements="nothing is remembered")
        deep = {"z": [True, (7, {"a": -0.5})], "B": some("u4"), "n": None}
        yield Case(deep, 2, statements="dtypes stay")
        for number in (1, True, 1.0):  # equal, and yet not the same
            yield Case([number], 2, statements="dtypes stay")
        yield Case((some(jnp.bfloat16, 2, 3), [some("i2")]), 6)
        yield Case({"y": some("f4", 8, 1) > 0, "x": [some("f4", 3), {}]}, 8)
        for many in (11, 1000):
            yield Case(some("f4", 2), many, mentions=[many, 8])
        yield Case({"none": []}, 9, mentions=[9, 8])

    free = "collectives sent arrays compiles"
    expect_like_solution(
        replicate,
        cases,
        value="a row on each device",
        layout="a row on each device",
        error="too many replicas",
        arguments="arguments stay",
        free={free: "nothing is said of programs"},
    )

    def stacks(rng):
        some = functools.partial(random_numbers, rng)
        for num_devices, dtype in ((1, "u1"), (3, "f4"), (5, "f2"), (8, "i4")):
            shapes = (), (1,), (4, num_devices), (2, 1, 3)
            arrays = [some(dtype, num_devices, *shape) for shape in shapes]
            yield Case({"b": arrays[:2], "a": (arrays[2], {"c": arrays[3] > 0})})
        yield Case(some("f4", 1, 1))
        yield Case(some("f4", 1, 1), statements="nothing is remembered")

    free = {f"layout {free}": "copied to the host or not", "error": "nothing is said"}
    proven = {"value": "the first replica", "arguments": "arguments stay"}
    expect_like_solution(unreplicate, stacks, **proven, free=free)
    some = functools.partial(random_numbers, np.random.default_rng(0))
    for rows, *where in (
        (some("f4", 8), (8,), "i"),
        (some("f4", 8, 3), (4,), "i"),
        (some("f4", 2, 6), (3,), None, "i"),
        (some("f4", 4, 6), (2, 3), "i", "j"),
        (some("f4", 6, 2), (2,)),
    ):
        seen = observe(unreplicate_placed, rows, *where)
        with statement("the first replica"):
            expect_close(seen, [rows[0]])
    tree = [EIGHT_ROWS, {"b": EIGHT_ROWS[:, 0] > 9}]
    seen = observe(round_trip, tree, 3)
    with statement("the first replica"):
        expect_shapes(seen, (tree, 0))
        expect_close(seen, (tree, seen.value[1]))
    with statement("arguments stay"):
        expect_none_lost(seen)


def random_params(rng, width, num_devices=None):  # no bias is 0
    params = init_mlp(rng.integers(10**6), width)
    params = jax.tree.map(lambda p: np.float32(p + rng.normal()), params)
    return params if num_devices is None else copies(params, num_devices)


def expect_params(seen, right, mistakes=None):  # whatever the loss
    expect_shapes(seen, right)
    wanted = (right[0], *seen.value[1:])
    expect_close(seen, wanted, rtol=1e-4, atol=1e-5, mistakes=mistakes)


def expect_loss(seen, right, mistakes=None):  # whatever the parameters
    expect_shapes(seen, right)
    wanted = (seen.value[0], right[1], *seen.value[2:])
    expect_close(seen, wanted, rtol=1e-4, atol=1e-5, mistakes=mistakes)


def unsent():  # why replicas may differ
    causes = {"no device sends anything": lambda seen: seen.collectives == ()}
    cause = "only a loss is sent: in pmap, its pmean leaves each gradient as it was"
    causes[cause] = lambda seen: {one.shape for one in seen.collectives or ()} == {()}
    return causes


def programs_inside(step):  # which a step of a program runs
    values = [p if isinstance(p, list | tuple) else [p] for p in step.params.values()]
    inside = [part for value in values for part in value if hasattr(part, "eqns")]
    return [getattr(part, "jaxpr", part) for part in inside]


def steps_that_mix_devices(params, x, y, lr):  # outside of what is mapped
    def steps(program):
        for one in program.eqns:
            inner = programs_inside(one)
            if one.primitive.name not in ("shard_map", "xla_pmap"):
                yield from () if inner else (one,)
                for part in inner:
                    yield from steps(part)

    own = y.shape[:1]  # of a loss per device
    replicas = {own, *(leaf.shape for leaf in jax.tree.leaves(params))}
    found = []
    for step in steps(tracing.program_steps(train_step, params, x, y, lr)):
        shapes = {getattr(v.aval, "shape", ()) for v in step.invars} & replicas
        most = max(map(np.prod, shapes), default=0)  # of what has a row per device
        made = [v.aval.shape for v in step.outvars if v.aval.shape[:1] != own]
        found += [step.primitive.name] * any(np.prod(one) < most for one in made)
    return sorted(found)


def two_steps(params, x, y, lr):
    params, x, y = jax.tree.map(jnp.asarray, (params, x, y))
    first = jax.tree.map(jnp.asarray, train_step(params, x, y, lr)[0])
    second = jax.tree.map(np.asarray, train_step(first, x, y, lr))
    donated = tracing.num_donated(train_step, params, x, y, lr)
    return *second, donated + num_lost(params, x, y, first)


@visible(
    "train_step",
    points=3,
    essential=["one step of SGD", "the loss before", "own shard only"],
    others=[
        "a row on each device",
        "replicas agree",
        "sent once",
        "one program",
        "integer parameters",
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
    with statement("one step of SGD", "the loss before"):
        expect_shapes(seen, copies((params, loss), many))
    with statement("replicas agree"):
        expect_replicas(seen, causes=causes)
    mistakes = {
        f"the gradients were added up: {many} times too large": (far, loss),
        "gradients and loss were added up, not averaged": (far, many * loss),
        "that is the loss after the step": (
            after,
            reference_perceptron(after, x, y)[0],
        ),
    }
    right, mistakes = copies(((after, loss), mistakes), many)
    with statement("one step of SGD"):
        expect_params(seen, right, mistakes)
    with statement("the loss before"):
        expect_loss(seen, right, mistakes)
    with statement("a row on each device"):
        expect_devices(seen, many)
    with statement("own shard only"):
        expect_arrays(seen, never=(16 * many, 32))
    with statement("sent once"):
        expect_one_sync(seen, params, many)
    lr = np.float32(np.random.rand())  # new in each run
    again = observe(train_step, copies(params, many), x, -y, lr)
    with statement("one program"):
        expect(again, not again.num_compiles, "Another lr compiled anew.")


@hidden("train_step")
def cases_of_train_step():
    def cases(rng):
        def some(num_devices, rows, width, lr, **more):
            params = random_params(rng, width, num_devices)
            batch = mlp_data(rng.integers(999), num_devices, rows)
            return Case(params, *batch, lr, **more)

        yield some(1, 5, 7, 1)
        yield some(3, 1, 2, np.float32(0.4))
        yield some(3, 1, 2, np.float32(3), statements="nothing is remembered")
        params, batch = init_mlp(1), mlp_data(2, 2, 16)
        yield Case(jax.tree.map(np.int8, copies(params, 2)), *batch, 1)
        biases = {name: np.int32(params[name]) for name in ("b1", "b2")}
        yield Case(copies(params | biases, 2), *batch, 1)

    def few_bytes(rng):  # so few that a number more would show
        yield Case(random_params(rng, 1, 2), *mlp_data(3, 2, 3), 0.5)

    expect_like_solution(
        train_step,
        cases,
        value=("one step of SGD", "the loss before"),
        layout="a row on each device",
        error="integer parameters",
        compiles="one program",
        arguments="arguments stay",
        free={"collectives sent arrays": "compared below"},
    )
    free = {"error layout compiles arguments": "compared above"}
    free["collectives arrays"] = "a sum for each array, or one of all"
    proven = {"value": "one step of SGD", "sent": "sent once"}
    expect_like_solution(train_step, few_bytes, **proven, free=free)
    stacked, (x, y) = copies(init_mlp(4, hidden=40), 3), mlp_data(5, 3, 24)
    seen = observe(train_step, stacked, x, y, 0.5, traced=True)
    with statement("own shard only"):
        expect_moved(seen, at_least=0.99 * 4 * 482 * 2 * 2 / 3)
        expect_arrays(seen, largest=2 * 24 * 40)
    seen = observe(steps_that_mix_devices, stacked, x, y, 0.5)
    headline = "Outside of the mapped step, rows of several devices are put into one."
    with statement("sent once"):
        expect_result(seen)
        expect(seen, not seen.value, headline, seen=", ".join(seen.value))
    params, (x, y) = init_mlp(7, hidden=2), mlp_data(8, 3, 1)
    after, [_, loss] = reference_sgd(params, x, y, 0.2, 2)
    seen = observe(two_steps, copies(params, 3), x, y, np.float32(0.2))
    right = *copies((after, loss), 3), 0
    with statement("one step of SGD"):
        expect_params(seen, right)
    with statement("the loss before"):
        expect_loss(seen, right)
    with statement("arguments stay"):
        expect_none_lost(seen)
    with statement("replicas agree"):
        expect_replicas(seen)


def placed_step(params, x, y, lr, num_devices):  # what it gives, and deletes
    mesh = Mesh(jax.devices()[:num_devices], ("i",))  # arrays lie where they are needed
    params = jax.device_put(params, NamedSharding(mesh, P()))
    rows = jax.device_put((x, y), NamedSharding(mesh, P("i")))
    found = shard_map_step(params, *rows, lr, num_devices)
    return *jax.tree.map(np.asarray, found), num_lost(params, rows)


@visible(
    "shard_map_step",
    points=4,
    essential=["one step of SGD", "the loss before", "own rows only"],
    others=[
        "whole on each device",
        "sent once",
        "one program",
        "rows do not divide",
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
    for number, how in ((many, "traced"), (max(2, many // 2), "compiled")):
        inputs = params, x, y, np.float32(0.1), number
        seen = observe(shard_map_step, *inputs, **{how: True})
        with statement("one step of SGD"):
            expect_params(seen, (after, loss), mistakes)
        with statement("the loss before"):
            expect_loss(seen, (after, loss), mistakes)
        with statement("whole on each device"):
            where = {len(pieces) for pieces in seen.layout.values()}
            headline = f"The result is not on all {number} devices."
            rows = {"seen": f"on {max(where, default=0)}"}
            expect(seen, where == {number}, headline, **rows)
        with statement("own rows only", "sent once"):
            expect_moved(seen, at_least=0.99 * 4 * 386 * 2 * (number - 1) / number)
        with statement("sent once"):
            expect_one_sync(seen, params, number)
    with statement("own rows only"):
        expect_arrays(seen, never=(8 * many, 32))
    lr = np.float32(np.random.rand())  # new in each run
    again = observe(shard_map_step, params, x, -y, lr, many)
    with statement("one program"):
        expect(again, not again.num_compiles, "Another lr compiled anew.")
    uneven = observe(shard_map_step, params, x[:13], y[:13], 0.1, many)
    with statement("rows do not divide"):
        expect_error(uneven, "ValueError", mentions=[13, many])


@hidden("shard_map_step")
def cases_of_shard_map_step():
    def cases(rng):
        def some(num_devices, rows, lr, **more):
            batch = mlp_data(rng.integers(999), rows)
            params = random_params(rng, rows % 4 + 1)
            return Case(params, *batch, lr, num_devices, **more)

        yield some(1, 5, 1)
        yield some(3, 3, np.float32(3), statements="nothing is remembered")
        for num_devices, rows in ((4, 6), (8, 5)):
            yield some(num_devices, rows, 0.1, mentions=[rows, num_devices])

    def few_bytes(rng):  # so few that a number more would show
        yield Case(random_params(rng, 1), *mlp_data(8, 12), 0.4, 6)

    params, (x, y) = init_mlp(3, hidden=4), mlp_data(4, 3)  # as in one of the cases
    after, [loss] = reference_sgd(params, x, y, 0.2, 1)
    seen = observe(placed_step, params, x, y, 0.2, 3)
    with statement("one step of SGD"):
        expect_params(seen, (after, loss, 0))
    with statement("the loss before"):
        expect_loss(seen, (after, loss, 0))
    with statement("arguments stay"):
        expect_none_lost(seen)
    expect_like_solution(
        shard_map_step,
        cases,
        value=("one step of SGD", "the loss before"),
        layout="whole on each device",
        error="rows do not divide",
        arguments="arguments stay",
        compiles="one program",
        free={"collectives sent arrays": "below"},
    )
    free = {"error arguments compiles": "as above"}
    free["collectives arrays"] = "a sum for each array, or one of all"
    proven = {"value": "one step of SGD", "layout": "whole on each device"}
    expect_like_solution(
        shard_map_step, few_bytes, **proven, sent="sent once", free=free
    )
    params, (x, y) = init_mlp(3, hidden=40), mlp_data(4, 72)
    seen = observe(shard_map_step, params, x, y, 0.2, 3, compiled=True)
    with statement("own rows only"):
        expect_arrays(seen, largest=1200)


def shares(params, x, y, mask, axis_name):  # each, and all with their gradients
    found = jax.value_and_grad(weighted_loss)(params, x, y, mask, axis_name)
    return found[0], jax.lax.psum(found, axis_name)


def summed(*inputs):
    return shares(*inputs)[1]


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
    essential=["rows of zeros", "the mask", "a device's share"],
    others=[
        "order and dtypes stay",
        "an empty batch",
        "gradients add up",
        "masked rows do not matter",
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
        with statement("rows of zeros", "order and dtypes stay", "the mask"):
            expect_shapes(seen, (padded, mask))
        with statement("rows of zeros", "order and dtypes stay"):
            expect_close(seen, (padded, seen.value[1]), mistakes=mistakes)
        with statement("the mask"):
            expect_close(seen, (seen.value[0], mask), mistakes=mistakes)
    with statement("an empty batch"):
        expect_error(observe(pad_and_shard, (x[:0], y[:0]), many), "ValueError")
    truth, (masked_x, masked_y) = reference_perceptron(params, *true), padded
    masked_x[~mask], masked_y[~mask] = 7, 7
    mistakes = wrong_counts(params, padded, mask, truth)
    close = {"rtol": 1e-4, "atol": 1e-5, "mistakes": copies(mistakes, many)}
    cause = f"that is nan, as 0 / 0 is: device {many - 1} has no true row"
    close["causes"] = {cause: lambda seen: np.isnan(seen.value[0]).all()}
    seen = observe(summed, copies(params, many), *padded, mask, "i", axis="i")
    with statement("a device's share", "gradients add up", "masked rows do not matter"):
        expect_close(seen, copies(truth, many), **close)


@hidden("pad_and_shard")
def cases_of_pad_and_shard():
    def batches(rng):
        some = functools.partial(random_numbers, rng)
        sizes = (3, 1), (3, 1), (1, 3), (2, 4), (8, 2), (4, 9), (6, 37)
        for num_devices, num_rows in sizes:
            batch = {"z": some(jnp.bfloat16, num_rows)}
            batch["f"] = some("u1", num_rows), some("f4", num_rows, 1) > 0
            batch["a"] = [some("f4", num_rows, 2, 3)]
            yield Case(batch, num_devices)
        infinite = {"x": np.float32([[1], [-2], [np.inf]])}
        yield Case(infinite, 2, statements="rows of zeros")
        yield Case({"x": np.zeros((3, 2), np.float32)}, 2, statements="the mask")
        rows = jnp.array(some("i4", 5))
        yield Case(rows, 2)
        yield Case(rows[::-1], 2, statements="nothing is remembered")
        for shape in ((0,), (0, 3)):
            yield Case({"a": np.zeros(shape, "i4")}, 4)

    expect_like_solution(
        pad_and_shard,
        batches,
        value=("rows of zeros", "order and dtypes stay", "the mask"),
        error="an empty batch",
        arguments="arguments stay",
        free={"layout collectives sent arrays compiles": "on the host or on devices"},
    )

    def masked(rng):
        for num_devices, rows, width, share, which in (
            (1, 7, 3, 1, ()),
            (3, 1, 2, 0.7, ()),
            (6, 5, 1, 0.3, "masked rows do not matter"),
            (2, 150, 1, 2, ()),  # more than a byte counts
            (1, 2053, 1, 2, ()),  # more than a float of 16 bits counts
        ):
            x, y = mlp_data(rng.integers(999), num_devices, rows)
            mask = rng.random(y.shape) < share
            mask[num_devices // 2, -1], mask[-1, :] = True, num_devices < 3
            if num_devices == 6:
                x[~mask], y[~mask] = 1e6, -1e6
            params = random_params(rng, width, num_devices)
            axis = f"axis_{num_devices}"
            yield Case(params, x, 9 * y, mask, axis, axis=axis, statements=which)

    expect_like_solution(
        shares,
        masked,
        value=("a device's share", "gradients add up"),
        free={
            "error arguments": "traced",
            "layout": "a row per device",
            "collectives sent arrays compiles": "nothing is said",
        },
    )


def most_layers_alive(params, x, y, lr, axis_name):  # hidden layers, at a time
    size = x.shape[2] * params["b1"].shape[-1]  # of a microbatch's

    def step(*inputs):
        run = functools.partial(accumulated_step, lr=lr, axis_name=axis_name)
        return jax.pmap(lambda *own: run(*own), axis_name)(*inputs)

    def layers(array):
        size_of = np.prod(getattr(array.aval, "shape", ()), dtype=int)
        return 0 if size_of % size else size_of // size

    def most(program):  # what it gets is alive where it is made
        last = {}  # the step that uses an array last
        for number, one in enumerate([*program.eqns, program]):
            used = one.outvars if one is program else one.invars
            last |= {id(array): number for array in used}
        alive, found = {}, 0
        for number, one in enumerate(program.eqns):
            made = {id(array): layers(array) for array in one.outvars}
            inside = max(map(most, programs_inside(one)), default=0)
            now = max(inside, sum(made.values()))
            found = max(found, sum(alive.values()) + now)
            alive = {k: n for k, n in (alive | made).items() if last.get(k, 0) > number}
        return found

    return int(most(tracing.program_steps(step, params, x, y)))


@visible(
    "accumulated_step",
    points=2,
    essential=["one step of SGD", "the loss before", "one microbatch at a time"],
    others=["equal on all devices", "one sync", "arguments stay"],
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
    with statement("one step of SGD", "the loss before"):
        expect_shapes(seen, copies((after, loss), there))
    with statement("equal on all devices"):
        expect_replicas(seen, causes=unsent())
    right, mistakes = copies(((after, loss), mistakes), there)
    with statement("one step of SGD"):
        expect_params(seen, right, mistakes)
    with statement("the loss before"):
        expect_loss(seen, right, mistakes)
    with statement("one sync"):
        expect_collectives(seen, in_loop=False)
        expect_one_sync(seen, params, there)
    with statement("one microbatch at a time"):
        for shape in ((64, 32), (4, 16, 32), (32, 32), (2, 16, 32)):
            expect_arrays(seen, never=shape)


@hidden("accumulated_step")
def cases_of_accumulated_step():
    def cases(rng):
        params, batch = random_params(rng, 2, 6), mlp_data(rng.integers(999), 6, 1, 1)
        yield Case(params, *batch, np.float32(0.7), "axis_6", axis="axis_6")
        # So few bytes that a number more would show.
        params, batch = random_params(rng, 1, 2), mlp_data(3, 2, 5, 3)
        yield Case(params, *batch, 0.5, "data", axis="data")

    expect_like_solution(
        accumulated_step,
        cases,
        value=("one step of SGD", "the loss before"),
        sent="one sync",
        arguments="arguments stay",
        free={
            "error": "traced",
            "layout": "a row per device",
            "collectives arrays": "a sum for each array, or one of all",
            "compiles": "nothing is said",
        },
    )
    params, batch = copies(init_mlp(6, hidden=99), 2), mlp_data(7, 2, 3, 50)
    seen = observe(accumulated_step, params, *batch, 0.5, "x", axis="x", traced=True)
    with statement("one sync"):
        expect_collectives(seen, in_loop=False)
        expect_moved(seen, at_least=0.99 * 4 * 1190)
    with statement("equal on all devices"):
        expect_replicas(seen)
    with statement("one microbatch at a time"):
        expect_arrays(seen, largest=50 * 99)
    params, batch = copies(init_mlp(6, hidden=11), 2), mlp_data(7, 2, 6, 7)
    one, many = (
        observe(most_layers_alive, params, *(a[:, :number] for a in batch), 0.5, "x")
        for number in (1, 6)
    )
    was = f"{many.value} arrays of a hidden layer's size, of 6 microbatches"
    rows = {"seen": was, "expected": f"{one.value}, as of one"}
    headline = "Hidden layers of several microbatches are alive at once."
    with statement("one microbatch at a time"):
        expect_result(one)
        expect(many, many.error or many.value <= one.value, headline, **rows)


def run_steps(params, x, y, num_steps, *settings):  # on each device
    optimizer = make_optimizer(*settings)

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


def reference_run(params, x, y, num_steps, settings, clip_first=False):
    peak, warmup, last, max_norm, weight_decay = settings

    def grads(params):
        found = [reference_perceptron(params, *rows) for rows in zip(x, y, strict=True)]
        if clip_first:
            found = [(loss, reference_clip(g, max_norm)) for loss, g in found]
        loss, mean = jax.tree.map(lambda *parts: np.mean(parts, axis=0), *found)
        return loss, mean if clip_first else reference_clip(mean, max_norm)

    steps = np.arange(num_steps)
    wave = (1 + np.cos(np.pi * np.clip((steps - warmup) / (last - warmup), 0, 1))) / 2
    rates = peak * np.where(steps < warmup, steps / max(warmup, 1), wave)
    after, _, _, losses = reference_adamw(params, rates, grads, weight_decay)
    return after, np.array(losses)


def run_optimizer(params, grads, *settings):  # on one device, a gradient per step
    optimizer = make_optimizer(*settings)

    def step(carry, grads):
        updates, state = optimizer.update(grads, carry[1], carry[0])
        params = optax.apply_updates(carry[0], updates)
        return (params, state), params

    return jax.lax.scan(step, (params, optimizer.init(params)), grads)[1]


def two_steps_of_sgd(params, x, y, momentum, axis_name):  # not make_optimizer's
    sgd = optax.sgd(0.2, momentum, nesterov=True)
    optimizer = optax.chain(optax.clip(0.3), sgd) if momentum < 0.8 else sgd
    state, losses, data = optimizer.init(params), [], (x, y, optimizer, axis_name)
    for _ in range(2):
        params, state, loss = optimizer_step(params, state, *data)
        losses.append(loss)
    return params, jax.tree.leaves(state), losses


@visible(
    "optimizer_step",
    points=3,
    essential=["clip by global norm", "like one device"],
    others=[
        "then AdamW",
        "warm-up and cosine",
        "equal on all devices",
        "any optimizer",
        "one sync",
    ],
)
def examples_of_optimizer_step():
    settings, there = (0.05, 4, 12, 2.0, 0.1), jax.device_count()
    params, (x, y) = init_mlp(1), mlp_data(6, there, 16)
    y[0] *= 4  # a hard shard
    run = functools.partial(reference_run, params, x, y, 12)
    cause = "clipping saw each device's own gradient"
    mistakes = {cause: run(settings, clip_first=True)}
    added, unclipped = (0.05, 4, 12, 2 / there, 0.1), (0.05, 4, 12, np.inf, 0.1)
    for cause, other in {
        "the gradients were added up": added,
        "nothing was clipped (by global norm, before AdamW)": unclipped,
        "the learning rate is constant": (0.05, 0, np.inf, 2.0, 0.1),
        "the cosine ends early: Optax counts the warm-up in": (0.05, 4, 8, 2.0, 0.1),
        "there is no weight decay": (0.05, 4, 12, 2.0, 0),
    }.items():
        mistakes[cause] = run(other)
    far, losses = mistakes["the gradients were added up"]
    mistakes["gradients and losses were added up"] = far, there * losses
    inputs = (copies(params, there), x, y, 12, *settings)
    seen = observe(run_steps, *inputs, axis="devices", traced=True)
    wanted, mistakes = copies((run(settings), mistakes), there)
    with statement("like one device"):
        expect_shapes(seen, wanted)
    with statement("equal on all devices"):
        expect_replicas(seen, causes=unsent())
    with statement(
        "clip by global norm", "then AdamW", "warm-up and cosine", "like one device"
    ):
        expect_close(seen, wanted, rtol=1e-3, atol=1e-4, mistakes=mistakes)
    with statement("one sync"):
        expect_one_sync(seen, params, there, 12)


@hidden("optimizer_step")
def cases_of_optimizer_step():
    def updates(rng):
        def tree(steps, scale):
            some = functools.partial(rng.normal, scale=scale)
            leaves = {"z": [some(size=(steps, 3)), (some(size=(steps, 2, 2)),)]}
            leaves |= {"a": some(size=(steps,))}
            grows = 1 + np.arange(steps) % 3  # Adam forgets a factor of all steps
            return jax.tree.map(lambda leaf: np.float32((leaf.T * grows).T), leaves)

        for size, settings in (
            (1, (0.1, 1, 3, 0.5, 0.0)),
            (1e3, (0.03, 4, 6, 1e5, 0.5)),
            (1e-6, (2.0, 2, 9, 3e-6, 0.01)),  # about as small as some add to a norm
        ):
            params = jax.tree.map(lambda leaf: leaf[0], tree(1, 1.0))
            both = params, tree(settings[2] + 1, size)
            if size < 1:
                both = [[one["z"], (one["a"],)] for one in both]  # no dict at the top
            # Adam's 1 - 0.999**n alone loses four digits in 32 bits.
            close = {"rtol": 2e-4, "atol": 2e-4 * settings[0]}
            yield Case(*both, *settings, **close)

    def others(rng):
        for num_devices, rows, width, momentum in ((2, 3, 1, 0.9), (3, 1, 2, 0.5)):
            params = random_params(rng, width, num_devices)
            x, y = mlp_data(rng.integers(99), num_devices, rows)
            y[0] *= 1000 if num_devices == 2 else 1  # one shard's gradients are large
            yield Case(params, x, 3 * y, momentum, "data", axis="data")

    free = {"error arguments": "traced", "compiles": "nothing is said"}
    expect_like_solution(
        run_optimizer,
        updates,
        value=("clip by global norm", "then AdamW", "warm-up and cosine"),
        free=free | {"layout collectives sent arrays": "on one device"},
    )
    expect_like_solution(
        two_steps_of_sgd,
        others,
        value=("any optimizer", "like one device"),
        sent="one sync",
        free=free | {"layout collectives arrays": "a row per device"},
    )


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
    essential=["step, then device", "one step of SGD", "moments of all rows"],
    others=[
        "equal on all devices",
        "this mask",
        "running moments",
        "arguments stay",
    ],
)
def examples_of_cnn_step():
    key, shape, many = jax.random.key(5), (4, 16), jax.device_count()
    keys, causes = mask_keys(key, 3, many)
    masks = draw_masks(keys, shape)
    causes = {cause: draw_masks(keys, shape) for cause, keys in causes.items()}
    inputs = (jnp.stack([key] * many), np.int32([3] * many))
    seen = observe(dropout_mask, *inputs, shape, "devices", axis="devices")
    with statement("step, then device"):
        expect_close(seen, masks, mistakes=causes)
    (x, y), state = images(many), init_cnn(1, (3,), hidden=16)
    right, far = (
        reference_cnn_step(state, masks, x, y, lr) for lr in (0.2, 0.2 * many)
    )
    inputs = (copies(state, many), *inputs, x, y, 0.2, "devices")
    seen = observe(cnn_step, *inputs, axis="devices")
    with statement("moments of all rows", "running moments"):
        expect_moments(seen, state, x, right)
    with statement("equal on all devices"):
        expect_replicas(seen)
    mistakes = {"the gradients were added up, not averaged": copies(far, many)}
    with statement("one step of SGD", "this mask"):
        right = copies(right, many)
        expect_close(seen, right, rtol=1e-3, atol=1e-4, mistakes=mistakes)


@hidden("cnn_step")
def cases_of_cnn_step():
    def draws(rng):
        keys = jnp.stack([jax.random.key(rng.integers(999))] * 3)
        for step in (90, 10**6 + rng.integers(10**8)):
            yield Case(keys, np.int32([step] * 3), (2, 3, 1), "batch", axis="batch")

    def steps(rng):
        def other(leaf):  # not 0 or 1, as scales, shifts and moments begin
            return leaf + np.float32(0.3 * rng.normal(size=leaf.shape))

        state = copies(jax.tree.map(other, init_cnn(2, channels=(2, 1), hidden=5)), 3)
        keys = jnp.stack([jax.random.key(rng.integers(999))] * 3)
        x = np.float32(3 * rng.random((3, 1, 8, 8, 1)) - 1)
        data = x, np.int32(rng.integers(10, size=(3, 1))), np.float32(0.05)
        small = jax.tree.map(np.copy, state)
        first = small["params"]["conv"][0]["w"]
        first[..., 0] *= 1e-3  # variance 1e-6, not to be raised
        yield Case(small, keys, 41, *data, "data", axis="data", rtol=1e-4, atol=2e-5)
        # Large sums of small differences: the mean has to go before they are squared.
        # Gradients would multiply what rounding leaves of them by thousands: no step.
        state = jax.tree.map(np.copy, state)
        for layer in state["params"]["conv"]:
            middle = layer["w"][:, 1:2, 1:2].copy()
            layer["w"][:] = 0
            # None near 0: rounding would decide too much.
            layer["w"][:, 1:2, 1:2] = middle + np.copysign(0.5, middle)
        data = 3000 + x, data[1], np.float32(0), "data"
        yield Case(state, keys, 41, *data, axis="data", rtol=2e-3, atol=5e-4)

    free = {
        "error": "traced",
        "layout": "a row per device",
        "collectives sent arrays compiles": "nothing is said",
    }
    stay = {"arguments": "arguments stay"}
    proven = "step, then device"
    expect_like_solution(dropout_mask, draws, value=proven, **stay, free=free)
    proven = ("one step of SGD", "this mask", "moments of all rows", "running moments")
    expect_like_solution(cnn_step, steps, value=proven, **stay, free=free, scales=())
