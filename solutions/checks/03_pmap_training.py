"""Checks of lesson 3: eight devices take the step of one on the whole batch."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.checks import hidden, visible
from coursekit.expect import expect, expect_close, expect_result, expect_shapes
from coursekit.expect_program import (
    expect_arrays,
    expect_collectives,
    expect_devices,
    expect_held,
    expect_moved,
    expect_one_sync,
    expect_own_rows,
    expect_replicas,
    expect_traced,
)
from coursekit.hidden_cases import Case
from coursekit.learner import (
    accumulated_step,
    batch_moments,
    cnn,
    cnn_step,
    copies,
    diloco_round,
    dropout_mask,
    evaluate,
    init_cnn,
    init_mlp,
    mlp_data,
    moving_average,
    row_losses,
    shard_map_step,
    train_step,
)
from coursekit.observe import observe
from coursekit.outcomes import statement
from coursekit.reference_checks import expect_like_solution, expect_own_share
from coursekit.references import (
    reference_perceptron,
    reference_sgd,
)
from coursekit.tracing import num_donated

RULES = {"arguments": "arguments stay", "memory": "nothing is remembered"}
X = 4  # its place, after four parameters
ANEW = "each call makes a new function, which is compiled again: make one, and keep it"
STEP = {"[0]": "same numbers", "[1]": "loss before the step"}  # what it returns


def few_devices():  # not all, where there are more than two
    return min(jax.device_count(), max(2, jax.device_count() // 2))


def num_lost(*trees):  # arrays that were donated or deleted
    return sum(leaf.is_deleted() for leaf in jax.tree.leaves(trees))


def expect_none_lost(seen):  # by what returns their number, alone or last
    expect_result(seen)
    headline = "Arrays were donated or deleted."
    expected = "the caller's arrays can be used again: no donate_argnums, no delete()"
    lost = seen.value if isinstance(seen.value, int) else seen.value[-1]
    expect(seen, not lost, headline, expected=expected)


def donated_by_accumulated_step(*inputs):
    return num_donated(accumulated_step, *inputs)


def donated_by_evaluate(*inputs):
    return num_donated(evaluate, *inputs)


def donated_by_cnn_step(*inputs):
    return num_donated(cnn_step, *inputs)


def donated_by_diloco_round(*inputs):
    return num_donated(diloco_round, *inputs)


def expect_no_recompilation(step, params, x, y, *more):  # after a call with lr 0.1
    again = "A call with the same shapes and the same lr compiled again."
    inside = (
        "lr is a constant of the program: pass it as an argument that is not static"
    )
    for lr, headline, cause, always in (
        (0.1, again, ANEW, True),
        (np.random.rand(), "A different lr compiled again.", inside, False),  # any
    ):
        call = functools.partial(observe, step, params, x, y, np.float32(lr), *more)
        causes = {cause: lambda _, f=call, a=always: bool(f().num_compiles) == a}
        seen = call()
        expect(seen, not seen.num_compiles, headline, causes=causes)


def labelled(rng, *shape):  # x: f32[*shape, 10], y: i32[*shape], of two classes
    return mlp_data(1, *shape)[0], np.int32(rng.integers(2, size=shape))


def random_params(rng, width, num_devices=None):  # no bias is 0
    params = init_mlp(rng.integers(10**6), width)
    params = jax.tree.map(lambda p: np.float32(p + rng.normal()), params)
    return params if num_devices is None else copies(params, num_devices)


CLOSE = {"rtol": 1e-4, "atol": 1e-5}
expect_params = functools.partial(expect_close, part="[0]", **CLOSE)
expect_loss = functools.partial(expect_close, part="[1]", **CLOSE)


def unsent(cause):  # why replicas may differ; `cause`: if only a loss is sent
    causes = {"no device sends anything": lambda seen: seen.collectives == ()}
    causes[cause] = lambda seen: {one.shape for one in seen.collectives or ()} == {()}
    return causes


def sync_bytes(many):  # of the gradients of an init_mlp and the loss, but 1 %
    return 0.99 * 4 * 386 * 2 * (many - 1) / many


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
    only = "only a loss is sent: in pmap, its pmean leaves each gradient as it was"
    causes, cause = unsent(only), "gradients are combined, losses are not"
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
        expect_moved(seen, at_least=sync_bytes(many), causes=unsent(only))
        expect_one_sync(seen, params, many)
    with statement("no recompilation"):
        expect_no_recompilation(train_step, copies(params, many), x, -y)
    fewer = few_devices()  # for the same rows
    rows = (a.reshape(fewer, -1, *a.shape[2:]) for a in (x, y))
    seen = observe(train_step, copies(params, fewer), *rows, np.float32(0.1))
    with statement("same numbers"):
        expect_params(seen, copies((after, loss), fewer))


@hidden("train_step")
def cases_of_train_step():
    def cases(rng):
        def some(num_devices, rows, width, lr):
            params = random_params(rng, width, num_devices)
            batch = mlp_data(rng.integers(999), num_devices, rows)
            return Case(params, *batch, lr)

        yield some(1, 5, 7, 1)
        yield some(3, 1, 2, np.float32(0.4))
        yield some(3, 1, 2, np.float32(3))

    def few_bytes(rng):  # so few that a number more would show
        yield Case(random_params(rng, 1, 2), *mlp_data(3, 2, 3), 0.5)
        yield Case(copies(init_mlp(9, 1, outputs=2), 2), *labelled(rng, 2, 1), 0.5)

    expect_like_solution(
        train_step,
        cases,
        value=STEP,
        layout="replicas agree",
        compiles="no recompilation",
        **RULES,
        free={"collectives sent arrays": "compared below", "error": "nothing is said"},
    )
    free = {"error layout compiles arguments": "compared above"}
    free["collectives arrays"] = "a sum for each array, or one of all"
    proven = {"value": STEP, "sent": "one all-reduce"}
    expect_like_solution(train_step, few_bytes, **proven, free=free)
    many = copies(init_mlp(1), 8), *mlp_data(5, 8, 24)
    with statement("own rows only"):
        expect_own_share(train_step, *many, 0.5)
    stacked, (x, y) = copies(init_mlp(4, hidden=40), 3), mlp_data(5, 3, 24)
    seen = observe(train_step, stacked, x, y, 0.5, traced=True)
    with statement("one all-reduce"):
        expect_moved(seen, at_least=0.99 * 4 * 482 * 2 * 2 / 3)
    headline = "Outside of the mapped step, rows of several devices are put into one."
    with statement("one all-reduce"):
        replicas = {(3,), *(leaf.shape for leaf in stacked.values())}
        expect(seen, not replicas & {*seen.joined}, headline)
    params, (x, y) = init_mlp(7, hidden=2), mlp_data(8, 3, 1)
    after, [_, loss] = reference_sgd(params, x, y, 0.2, 2)
    seen = observe(two_steps, copies(params, 3), x, y, np.float32(0.2))
    right = *copies((after, loss), 3), 0
    with statement("same numbers"):
        expect_params(seen, right)
    with statement("loss before the step"):
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


def replicas_of_shard_map_step(*inputs):  # what each device holds, stacked
    found = shard_map_step(*inputs)
    parts = jax.tree.map(lambda leaf: leaf.addressable_shards, found)
    return jax.tree.map(
        lambda shards: np.stack([one.data for one in shards]),
        parts,
        is_leaf=lambda part: isinstance(part, list),
    )


@visible(
    "shard_map_step",
    points=3,
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
    causes = {cause: lambda seen: seen.whole_inputs[X]}
    cause = "the compiler adds the all-reduce; here your own step does, in shard_map"
    causes[cause] = lambda seen: (8 * many, 32) in seen.array_shapes
    cause = "only a loss is sent: with check_vma=False, its pmean averages no gradient"
    causes |= (lost := unsent(cause))
    for number, how in ((many, "traced"), (max(2, many // 2), "compiled")):
        inputs = params, x, y, np.float32(0.1), number
        seen = observe(shard_map_step, *inputs, **{how: True})
        with statement("same numbers"):
            expect_params(seen, (after, loss), mistakes=mistakes, causes=lost)
        with statement("loss before the step"):
            expect_loss(seen, (after, loss), mistakes=mistakes)
        with statement("replicated result"):
            on = {len(pieces) for pieces in seen.layout.values()}
            headline = f"The result is not on {number} devices alone."
            if max(on, default=0) <= number:
                headline = f"The result is not on all {number} devices."
            expect(seen, on == {number}, headline, seen=f"on {max(on, default=0)}")
            expect_replicas(observe(replicas_of_shard_map_step, *inputs))
        with statement("one all-reduce"):
            expect_traced(seen)
            headline = "The step itself sends nothing."
            expect(seen, seen.collectives or number == 1, headline, causes=causes)
            expect_moved(seen, at_least=sync_bytes(number), causes=causes)
        with statement("one all-reduce"):
            expect_one_sync(seen, params, number)
        with statement("own rows only"):
            expect_own_rows(seen, X)
    with statement("own rows only"):
        expect_arrays(seen, never=(8 * many, 32))
    with statement("no recompilation"):
        expect_no_recompilation(shard_map_step, params, x, -y, many)


@hidden("shard_map_step")
def cases_of_shard_map_step():
    def cases(rng):
        def some(num_devices, rows, lr):
            batch = mlp_data(rng.integers(999), rows)
            params = random_params(rng, rows % 4 + 1)
            return Case(params, *batch, lr, num_devices)

        yield some(1, 5, 1)
        yield some(3, 3, np.float32(3))

    def few_bytes(rng):  # so few that a number more would show
        yield Case(random_params(rng, 1), *mlp_data(8, 12), 0.4, 6)
        yield Case(init_mlp(9, 1, outputs=2), *labelled(rng, 6), 0.5, 2)

    params, (x, y) = init_mlp(3, hidden=4), mlp_data(4, 3)  # as in one of the cases
    after, [loss] = reference_sgd(params, x, y, 0.2, 1)
    seen = observe(placed_step, params, x, y, 0.2, 3)
    with statement("same numbers"):
        expect_params(seen, (after, loss, 0))
    with statement("loss before the step"):
        expect_loss(seen, (after, loss, 0))
    with statement("arguments stay"):
        expect_none_lost(seen)
    expect_like_solution(
        shard_map_step,
        cases,
        value=STEP,
        layout="replicated result",
        **RULES,
        compiles="no recompilation",
        free={"collectives sent arrays": "below", "error": "nothing is said"},
    )
    free = {"error arguments compiles": "as above"}
    free["collectives arrays"] = "a sum for each array, or one of all"
    proven = {"value": STEP, "layout": "replicated result"}
    expect_like_solution(
        shard_map_step, few_bytes, **proven, sent="one all-reduce", free=free
    )
    with statement("own rows only"):
        params = init_mlp(3, hidden=40)
        expect_own_share(shard_map_step, params, *mlp_data(4, 96), 0.2, 8)


@visible(
    "accumulated_step",
    points=3,
    essential=[
        "same numbers",
        "own rows only",
        "one microbatch at a time",
        "one all-reduce",
    ],
    others=["loss before the step", "arguments stay", "nothing is remembered"],
)
def examples_of_accumulated_step():
    params, many = init_mlp(1), few_devices()
    x, y = mlp_data(5, 6, 16 * many)
    (after, [loss]), small, found = reference_sgd(params, x, y, 0.1, 1), params, []
    for rows in zip(x, y, strict=True):
        small, [first] = reference_sgd(small, *rows, 0.1, 1)
        found.append(first)
    mistakes = {"each microbatch took a step of its own": (small, np.mean(found))}
    for who, times in {"microbatches": 6, "devices": many}.items():
        far = reference_sgd(params, x, y, times * 0.1, 1)[0]
        mistakes[f"the gradients of the {who} were added up, not averaged"] = far, loss
        mistakes[f"gradients and losses of the {who} were added up"] = far, times * loss
    seen = observe(accumulated_step, params, x, y, 0.1, many, traced=True)
    with statement("same numbers"):
        expect_params(seen, (after, loss), mistakes=mistakes)
    with statement("loss before the step"):
        expect_loss(seen, (after, loss), mistakes=mistakes)
    with statement("own rows only"):
        expect_own_rows(seen, X)
    cause = (
        "each round sends: by a collective in the loop, or since the parameters do not"
        " vary, so that JAX sums each gradient"
    )
    causes = {cause: lambda seen: any(one.in_loop for one in seen.collectives)}
    with statement("one all-reduce"):
        expect_collectives(seen, in_loop=False, causes=causes)
        expect_one_sync(seen, params, many)
        expect_moved(seen, at_least=sync_bytes(many))
    with statement("one microbatch at a time"):
        for number in (6, 3, 2):
            for shape in ((16 * number, 32), (number, 16, 32)):
                expect_arrays(seen, never=shape)


@hidden("accumulated_step")
def cases_of_accumulated_step():
    def cases(rng):  # two of a kind: what is kept shows
        for seed in (1, 2):
            batch = mlp_data(seed, 1, 6)
            yield Case(random_params(rng, 2), *batch, np.float32(0.7), 6)
        # So few bytes that a number more would show.
        yield Case(init_mlp(9, 1, outputs=2), *labelled(rng, 5, 4), 0.5, 2)

    expect_like_solution(
        accumulated_step,
        cases,
        value=STEP,
        own_rows="own rows only",
        sent="one all-reduce",
        **RULES,
        free={
            "error": "nothing is said",
            "layout": "out_specs are given",
            "collectives arrays": "a sum for each array, or one of all",
            "compiles": "nothing is said",
        },
    )
    with statement("own rows only"):
        expect_own_share(accumulated_step, init_mlp(2), *mlp_data(1, 3, 96), 0.5, 8)
    with statement("arguments stay"):
        inputs = init_mlp(1), *mlp_data(1, 1, 6), 0.5, 2
        expect_none_lost(observe(donated_by_accumulated_step, *inputs))
    params, (x, y) = init_mlp(6, hidden=99), mlp_data(7, 6, 140)
    single, seen = (
        observe(accumulated_step, params, *batch, 0.5, 2, traced=True)
        for batch in ((x[:1], y[:1]), (x, y))
    )
    with statement("one all-reduce"):
        expect_collectives(seen, in_loop=False)
    with statement("one microbatch at a time"):
        expect_result(single)
        layers = "Hidden layers of several microbatches"
        expect_held(seen, int(1.5 * single.most_held), layers)  # of 6, not of one


def reference_evaluation(params, x, y):  # what evaluate returns
    hidden_layer = np.tanh(np.float64(x) @ params["w1"] + params["b1"])
    said = (hidden_layer @ params["w2"] + params["b2"]).argmax(1)
    return reference_perceptron(params, x, y)[0], np.mean(said == y)


def device_means(params, x, y, many):  # 0 on a device without a row
    rows = [slice(n, n + 6) for n in range(0, 6 * many, 6) if n < len(x)]
    return sum(np.array(reference_evaluation(params, x[r], y[r])) for r in rows) / many


def classes(rng, num_rows, num_classes):  # x: f32[N, 10], y: i32[N]
    x, _ = mlp_data(rng.integers(999), num_rows)
    return x, np.int32(rng.integers(num_classes, size=num_rows))


cause = "rows are gathered: each device adds up its own, and psum adds the sums"
GATHERED = {cause: lambda seen: "all-gather" in {one.kind for one in seen.collectives}}


def expect_sums(seen, num_batches, num_devices):  # four numbers in each batch
    most = num_batches * 4 * 4 * 2 * (num_devices - 1) / num_devices
    expect_moved(seen, at_most=most, causes=GATHERED)


@visible(
    "evaluate",
    points=4,
    essential=["every row once", "own rows only"],
    others=[
        "one shape",
        "sums only",
        "no recompilation",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_evaluate():
    many, rng = jax.device_count(), np.random.default_rng(1)
    size = 6 * many
    given = set()  # which devices get all rows
    for number, num_rows in ((few_devices(), size), (many, size + many + 3)):
        params = random_params(rng, 37) | {"w2": np.float32(rng.normal(size=(37, 3)))}
        params["b2"] = np.float32([0.5, -0.5, 1])
        x, y = classes(rng, num_rows, 3)
        right = reference_evaluation(params, x, y)
        parts = [slice(n, n + size) for n in range(0, num_rows, size)]
        means = [reference_evaluation(params, x[one], y[one]) for one in parts]
        whole = num_rows // size * size
        zeros = np.zeros((len(parts) * size - num_rows, 10), np.float32)
        padded = np.concatenate([x, zeros]), np.pad(y, (0, len(zeros)))
        again = [np.concatenate([a, a[: len(zeros)]]) for a in (x, y)]
        causes = {
            "that is the mean of the batches' means": tuple(np.mean(means, axis=0)),
            "the padding was counted": reference_evaluation(params, *padded),
            "the short last batch was left out": reference_evaluation(
                params, x[:whole], y[:whole]
            ),
            "rows that fill up the last batch were counted": reference_evaluation(
                params, *again
            ),
        }
        own = np.array([device_means(params, x[one], y[one], many) for one in parts])
        cause = "that is a mean of the devices' means: add up sums, and divide once"
        causes[cause] = tuple(np.float64([len(x[one]) for one in parts]) @ own / len(x))
        mistakes = causes if num_rows > size else {}
        seen = observe(evaluate, params, x, y, size, number, traced=True)
        with statement("every row once"):
            expect_close(seen, right, mistakes=mistakes, **CLOSE)
        with statement("own rows only"):
            expect_own_rows(seen, X)
        with statement("sums only"):
            expect_sums(seen, len(parts), number)
        given |= {*seen.whole_inputs[X : X + 1]} if seen.whole_inputs else set()
    with statement("one shape"):
        expect_traced(seen)
        found = {shape[0] for shape in seen.array_shapes if shape[1:] == (37,)}
        counts = sorted(found - {1, 10})  # b1, w1: f32[10, 37]
        headline = f"Devices get batches of {counts} rows."
        expected = f"batches of {size} rows, 6 on each device"
        whole = [[size]] if given == {""} else []  # of jit: for all devices
        expect(seen, counts in ([], [6], *whole), headline, expected=expected)
    with statement("no recompilation"):
        seen = observe(evaluate, params, -x, y, size, many)
        headline = "A call with arrays of the same shapes compiled again."
        causes = {ANEW: lambda seen: seen.num_compiles}
        expect(seen, not seen.num_compiles, headline, causes=causes)


@hidden("evaluate")
def cases_of_evaluate():
    def cases(rng):
        for num_rows, size, num_devices, outputs in (
            (1, 6, 3, 2),
            (6, 6, 1, 1),
            (9, 4, 2, 4),
            (9, 4, 2, 4),
            (20, 6, 6, 3),
        ):
            params = random_params(rng, 3)
            params["w2"] = np.float32(3 * rng.normal(size=(3, outputs)))
            params["b2"] = np.float32(rng.normal(size=outputs))
            yield Case(params, *classes(rng, num_rows, outputs), size, num_devices)

    expect_like_solution(
        evaluate,
        cases,
        value="every row once",
        **RULES,
        free={
            "layout": "on the mesh or on the host",
            "error": "nothing is said",
            "collectives sent arrays": "compared below",
            "compiles": "what pads may compile",
        },
        scales=(1000,),
        one_by_one=0.5,  # at 0 all scores are equal
    )
    rng = np.random.default_rng(2)
    params, (x, y) = init_mlp(3, hidden=37, outputs=2), classes(rng, 24, 2)
    with statement("arguments stay"):
        expect_none_lost(observe(donated_by_evaluate, params, x, y, 24, 3))
    with statement("own rows only"):
        expect_own_share(evaluate, params, *classes(rng, 96, 2), 96, 8)
    seen = observe(evaluate, params, x, y, 24, 3, traced=True)
    with statement("sums only"):
        expect_sums(seen, 1, 3)


def images(num_rows, brightness=1.0):  # f32[B, 8, 8, 1], later ones brighter
    x = np.random.default_rng(0).random((1, 8, 8, num_rows)).T
    x = x * brightness * np.linspace(1, 3, num_rows)[:, None, None, None]
    return np.float32(x), np.int32(np.arange(num_rows) % 10)


@functools.partial(jax.jit, static_argnames="is_frozen")
def reference_cnn_step(state, keep, x, y, lr, is_frozen=False):  # one device, all rows
    def moments_of(h):
        return batch_moments(jax.lax.stop_gradient(h) if is_frozen else h)

    def loss_of(params):
        scores, used = cnn(params, x, keep, moments_of)
        return jnp.mean(row_losses(scores, y)), used

    (loss, used), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
    params = jax.tree.map(lambda p, g: p - lr * g, state["params"], grads)
    return {"params": params, "stats": moving_average(state["stats"], used)}, loss


def several_masks(keys, steps, num_rows, num_units):  # in one program
    def draw(pair):
        return dropout_mask(*pair, num_rows, num_units)

    return jax.lax.map(draw, (keys, steps))


def compared_masks(num_rows, num_units, meshes, key, step):
    """Compares masks on meshes, and with others; returns those on the last mesh."""
    keys = jnp.stack([key, key, jax.random.fold_in(key, 1)])
    steps, found = np.int32([step, step + 1, step]), []
    for many in meshes:
        inputs = jnp.stack([keys] * many), np.stack([steps] * many)
        sizes = num_rows // many, num_units
        found.append(observe(several_masks, *inputs, *sizes, axis="devices"))

    def rows(number):  # bool[3, num_rows, num_units]
        seen, many = found[number], meshes[number]
        expect_shapes(seen, np.zeros((many, 3, num_rows // many, num_units), bool))
        return np.moveaxis(seen.value, 1, 0).reshape(3, num_rows, num_units)

    alike = {
        "every device draws the same masks": lambda seen: (
            len(seen.value) > 1 and (seen.value == seen.value[0]).all()
        )
    }
    with statement("same masks on any mesh"):
        headline = f"{meshes[0]} and {meshes[-1]} devices draw different masks."
        one, all_rows = rows(0), rows(-1)
        of_device_0 = slice(0, num_rows // meshes[-1])
        cause = "a mask follows the device's number, not the row's place in the batch"
        causes = alike | {
            cause: lambda _: (one == all_rows)[:, of_device_0].all(),
        }
        expect(found[-1], np.array_equal(one, all_rows), headline, causes=causes)
    with statement("fresh masks"):
        kept = rows(-1)
        causes = {
            "the step is not in the key": lambda _: np.array_equal(kept[0], kept[1]),
            "the key is not used": lambda _: np.array_equal(kept[0], kept[2]),
            "step and row are added: fold each of them in by itself": lambda _: (
                np.array_equal(kept[0][1:], kept[1][:-1])
            ),
            **alike,
        }
        distinct = {row.tobytes() for row in kept.reshape(-1, num_units)}
        headline = f"{3 * num_rows} rows have {len(distinct)} different masks."
        expect(found[-1], len(distinct) == 3 * num_rows, headline, causes=causes)
        headline = f"A unit is kept with probability {kept.mean():.2f}."
        expect(found[-1], abs(kept.mean() - 0.5) < 3 / np.sqrt(kept.size), headline)
    return np.moveaxis(found[-1].value, 1, 0)[0].reshape(num_rows, num_units)


def compare_cnn_step(state, keep, key, step, x, y, lr, many, **how):
    """Compares a step with one device's, which applies the masks `keep`."""
    right, far = (reference_cnn_step(state, keep, x, y, lr * n) for n in (1, many))
    seen = observe(cnn_step, state, key, step, x, y, lr, many, **how)
    parts = [rows.reshape(many, -1, *rows.shape[1:]) for rows in (x, keep)]
    moments_of = jax.vmap(lambda x, keep: cnn(state["params"], x, keep, batch_moments))
    _, own = moments_of(*parts)  # of each device's rows
    first, mean = (jax.tree.map(f, own) for f in (lambda a: a[0], lambda a: a.mean(0)))
    average = functools.partial(moving_average, state["stats"])
    cause = "each variance is the mean of the devices' own: first agree on the mean"
    wrong = {cause: average(mean), "these are the moments of device 0": average(first)}

    def is_frozen(value):  # a step whose moments are constants
        frozen = reference_cnn_step(state, keep, x, y, lr, is_frozen=True)
        alike = jax.tree.map(lambda a, b: np.allclose(a, b, 1e-3, 1e-4), value, frozen)
        return jax.tree.all(alike)

    def whatever(stats):  # with the parameters and the loss that were seen
        return {"params": seen.value[0]["params"], "stats": stats}, seen.value[1]

    with statement("moments of the whole batch"):
        expect_shapes(seen, right)
        mistakes = {cause: whatever(stats) for cause, stats in wrong.items()}
        wanted = whatever(right[0]["stats"])
        expect_close(seen, wanted, rtol=1e-3, atol=1e-4, mistakes=mistakes)
    with statement("same numbers"):
        mistakes = {f"the gradients are {many} times too large": far}
        cause = "no gradient flows through the moments"
        causes = {cause: lambda seen: is_frozen(seen.value)}
        how = {"rtol": 1e-3, "atol": 1e-4, "causes": causes}
        expect_close(seen, right, mistakes=mistakes, **how)
    return seen


@visible(
    "cnn_step",
    points=3,
    essential=[
        "same numbers",
        "own rows only",
        "same masks on any mesh",
        "fresh masks",
        "moments of the whole batch",
    ],
    others=["no recompilation", "arguments stay", "nothing is remembered"],
)
def examples_of_cnn_step():
    key, many = jax.random.key(5), jax.device_count()
    keep = compared_masks(4 * many, 64, (1, many), key, 3)
    state, rows = init_cnn(1, (3,), hidden=64), images(4 * many)
    seen = compare_cnn_step(state, keep, key, 3, *rows, 0.2, many, traced=True)
    with statement("own rows only"):  # the images come after the state and the key
        expect_own_rows(seen, len(jax.tree.leaves(state)) + 1)
        grads = {np.shape(leaf) for leaf in jax.tree.leaves(state["params"])}
        others = [one for one in seen.collectives if one.shape not in grads]
        headline = "The devices send more than moments, gradients and the loss."
        shown = {"seen": "; ".join(map(str, others)), "causes": GATHERED}
        expect(seen, all(one.numbers < 100 for one in others), headline, **shown)
    with statement("no recompilation"):
        seen = observe(cnn_step, state, jax.random.key(6), 4, *rows, 0.2, many)
        headline = "A call with a new key and step compiled again."
        expect(seen, not seen.num_compiles, headline)


@hidden("cnn_step")
def cases_of_cnn_step():
    rng = np.random.default_rng(3)

    def other(leaf):  # not 0 or 1, as scales, shifts and moments begin
        return leaf + np.float32(0.3 * rng.normal(size=leaf.shape))

    state = jax.tree.map(other, init_cnn(2, channels=(2,), hidden=40))
    state["params"]["conv"][0]["w"][..., 0] *= 1e-3  # variance 1e-6, not to be raised
    key, step, rows = jax.random.key(17), 10**6 + 1, images(12)
    keep = compared_masks(12, 40, (3,), key, step)
    compare_cnn_step(state, keep, key, step, *rows, 0.05, 3)
    with statement("own rows only"):
        expect_own_share(cnn_step, init_cnn(4, (3,)), key, 7, *images(64), 0.05, 8)
    with statement("arguments stay"):
        inputs = state, key, step, *rows, 0.05, 3
        expect_none_lost(observe(donated_by_cnn_step, *inputs))

    def steps(rng):
        for number in range(2):
            key = jax.random.key(rng.integers(999))
            yield Case(jax.tree.map(other, state), key, number, *rows, 0.05, 3)

    every = "each answer draws masks of its own"
    expect_like_solution(
        cnn_step,
        steps,
        **RULES,
        free={
            "value error": every,
            "layout collectives sent arrays compiles": "nothing is said",
        },
        scales=(),
    )


def reference_round(params, velocity, x, y, lr, num_devices):
    """Takes a round in NumPy.

    Returns the right result, and the outer gradient of each device.
    """
    size, ends, losses = x.shape[1] // num_devices, [], []
    for device in range(num_devices):
        own, rows = params, slice(device * size, (device + 1) * size)
        for batch in zip(x[:, rows], y[:, rows], strict=True):
            own, [loss] = reference_sgd(own, *batch, lr, 1)
            losses.append(loss)
        ends.append(own)
    grads = [{name: params[name] - own[name] for name in params} for own in ends]
    g = {name: np.mean([one[name] for one in grads], axis=0) for name in params}
    return *outer_step(params, velocity, g), np.mean(losses), grads


def outer_step(params, velocity, g):
    velocity = {name: 0.9 * velocity[name] + g[name] for name in g}
    after = {name: params[name] - 0.7 * (g[name] + 0.9 * velocity[name]) for name in g}
    return after, velocity


ROUND = {"[0]": "same numbers", "[1]": "same numbers", "[2]": "loss of all steps"}


@visible(
    "diloco_round",
    points=4,
    essential=["same numbers", "own rows only", "one all-reduce"],
    others=[
        "loss of all steps",
        "no recompilation",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_diloco_round():
    many, rng = few_devices(), np.random.default_rng(4)
    params, velocity = init_mlp(1), random_params(rng, 32)
    x, y = mlp_data(2, 3, 4 * many)
    inputs = params, velocity, x, y, np.float32(0.1), many
    *right, loss, grads = reference_round(*inputs)
    zeros = jax.tree.map(np.zeros_like, params)
    g = {name: np.mean([one[name] for one in grads], axis=0) for name in params}
    total = {name: many * leaf for name, leaf in g.items()}
    away = {name: -leaf for name, leaf in g.items()}
    plain = {name: params[name] - 0.7 * g[name] for name in g}
    lockstep, losses = params, []
    for rows in zip(x, y, strict=True):
        lockstep, [own] = reference_sgd(lockstep, *rows, 0.1, 1)
        losses.append(own)
    in_step = {name: params[name] - lockstep[name] for name in params}
    old = {name: 0.7 * (g[name] + 0.9 * velocity[name]) for name in g}
    old = {name: params[name] - old[name] for name in g}, right[1]
    mistakes = {
        "the old velocity is forgotten": outer_step(params, zeros, g),
        "the momentum is left out": (plain, velocity),
        "the parameters take a step with the old velocity": old,
        "the outer gradients are added up, not averaged": outer_step(
            params, velocity, total
        ),
        "the outer gradient has the wrong sign": outer_step(params, velocity, away),
        "this is the outer step of device 0 alone": outer_step(
            params, velocity, grads[0]
        ),
    }
    mistakes = {cause: (*found, loss) for cause, found in mistakes.items()}
    in_step = *outer_step(params, velocity, in_step), np.mean(losses)
    mistakes["the devices agree in every local step"] = in_step
    seen = observe(diloco_round, *inputs, traced=True)
    for part, name in ROUND.items():
        with statement(name):
            expect_close(seen, (*right, loss), part=part, mistakes=mistakes, **CLOSE)
    with statement("own rows only"):
        expect_own_rows(seen, 2 * X)
    cause = (
        "each local step sends: by a collective in it, or since the parameters do not"
        " vary, so that JAX sums each gradient"
    )
    causes = {cause: lambda seen: any(one.in_loop for one in seen.collectives)}
    with statement("one all-reduce"):
        expect_collectives(seen, in_loop=False, causes=causes)
        expect_one_sync(seen, params, many)
        expect_moved(seen, at_least=sync_bytes(many))
    with statement("no recompilation"):
        lr = np.float32(np.random.rand())
        seen = observe(diloco_round, params, velocity, -x, y, lr, many)
        headline = "A call with arrays of the same shapes compiled again."
        expect(seen, not seen.num_compiles, headline)


@hidden("diloco_round")
def cases_of_diloco_round():
    def cases(rng):
        for rows in (6, 6):  # two of a kind: what is kept shows
            trees = random_params(rng, 2), random_params(rng, 2)
            data = mlp_data(rng.integers(999), 3, rows)
            # What steps of 0.01 leave of parameters of size 1 is rounded on the way.
            yield Case(*trees, *data, 0.1, 3, atol=4e-6)
        params = init_mlp(9, 1, outputs=2)
        velocity = jax.tree.map(np.zeros_like, params)
        yield Case(params, velocity, *labelled(rng, 1, 4), np.float32(0.5), 2)

    expect_like_solution(
        diloco_round,
        cases,
        value=ROUND,
        own_rows="own rows only",
        sent="one all-reduce",
        **RULES,
        free={
            "error": "nothing is said",
            "layout": "out_specs are given",
            "collectives arrays": "a sum for each array, or one of all",
            "compiles": "compared above",
        },
        scales=(0,),
    )
    trees = init_mlp(3), init_mlp(4)
    with statement("own rows only"):
        expect_own_share(diloco_round, *trees, *mlp_data(4, 2, 96), 0.2, 8)
    with statement("arguments stay"):
        inputs = *trees, *mlp_data(4, 1, 6), 0.2, 3
        expect_none_lost(observe(donated_by_diloco_round, *inputs))
