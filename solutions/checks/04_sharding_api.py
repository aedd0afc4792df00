"""Checks of lesson 4: where arrays are, and what compiled programs send."""

from __future__ import annotations

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.checks import hidden, visible
from coursekit.expect import expect, expect_close, expect_error, expect_result
from coursekit.expect_program import (
    expect_arrays,
    expect_collectives,
    expect_layout,
    expect_moved,
    expect_traced,
)
from coursekit.hidden_cases import Case
from coursekit.learner import (
    choose_layout,
    explicit_mlp,
    fsdp_step,
    hsdp_step,
    init_sharded,
    make_adam,
    make_mesh,
    make_state,
    mlp_case,
    overlapped_matmul,
    predict_layout,
    sharded_matmul,
    specs_by,
    state_shardings,
    tensor_parallel_mlp,
)
from coursekit.observe import observe
from coursekit.outcomes import statement
from coursekit.plan import devices, plan
from coursekit.reference_checks import expect_like_solution
from coursekit.references import reference_adamw, reference_relu_layers, reference_sgd
from coursekit.traced_program import A_SEND, OWN_SEND
from coursekit.tracing import num_donated

RULES = {"arguments": "arguments stay", "memory": "nothing is remembered"}


@visible(
    "predict_layout",
    points=2,
    essential=["block and count", "no devices needed"],
    others=["short specs", "mistakes raise", "arguments stay", "nothing is remembered"],
)
def examples_of_predict_layout():
    block, missing, unasked = "block and count", "short specs", "no devices needed"
    mesh_shape, thousand = {"data": 4, "model": 2}, {"data": 1000, "model": 2}
    other = {"rows": 2, "columns": 3}
    for what, shape, sizes, spec, expected in (
        (block, (16, 6), mesh_shape, ("data", "model"), ((4, 3), 8)),
        (block, (16, 6), other, (None, "columns"), ((16, 2), 3)),
        (block, (3, 8), mesh_shape, (None, ("model", "data")), ((3, 1), 8)),
        (missing, (16, 6), mesh_shape, (), ((16, 6), 1)),
        (unasked, (3000, 2), thousand, ("data", None), ((3, 2), 1000)),
    ):
        seen = observe(predict_layout, shape, sizes, spec)
        replicas = "axes that the spec does not name only add replicas"
        causes = {replicas: (expected[0], math.prod(sizes.values()))}
        causes["a tuple of names cuts by the product of their sizes"] = ((3, 4), 2)
        with statement(what):
            expect_close(seen, expected, mistakes=causes)
            expect(seen, type(seen.value[0]) is tuple, "The block's shape is no tuple.")
    for shape, spec in (((12, 4), (("data", "model"),)), ((8, 8), ("rows",))):
        mistaken = observe(predict_layout, shape, mesh_shape, spec)
        with statement("mistakes raise"):
            expect_error(mistaken, "ValueError")


@hidden("predict_layout")
def cases_of_predict_layout():
    def cases(rng):
        yield Case((), {"i": 8}, ())
        for size, parts in ((5, 3), (5, 7), (7, 7), (9, 3)):
            yield Case((size, 9), {"i": parts}, (None, "i"))
            yield Case((9, size), {"i": parts}, ("i", None))
        yield Case((6, 1, 1), {"a": 1, "b": 6}, ("b", None, "a"))
        yield Case((3 * (2**24 + 1),), {"i": 3}, ("i",))  # not in a float of 32 bits
        equal = {"x": 2, "y": 2, "z": 2}
        yield Case((8, 5, 4), equal, (("y", "x"), None, "z"))
        yield Case((8, 5, 4), equal, ("x", None, "z"))
        for names in (("a", "b", "c"), ("a", "aa", "b")):  # the same sizes, other names
            sizes = dict(zip(names, (2, 3, 1), strict=True))
            yield Case((12, 36), sizes, ("a", ("b",)))
        missing, unasked = "short specs", "no devices needed"
        for count in range(6):
            names = rng.permutation(["x", "rows", "stage", "pod"]).tolist()
            more, what = (7, unasked) if count < 2 else (1, ())  # than 8 devices
            sizes = rng.permutation([1, 2, 3, more]).tolist()
            less = count % 2 * int(rng.integers(1, 4))
            what = missing if less else what
            # What several axes make of a size is the essential statement's alone.
            several = names[1] if what else tuple(names[1:3])
            spec = [None, names[0], several, (names[3],)]
            spec = tuple(spec[place] for place in rng.permutation(4))
            shape = tuple(42 * int(n) for n in rng.integers(1, 30, 4))
            mesh_shape = dict(sorted(zip(names, sizes, strict=True)))
            yield Case(shape, mesh_shape, spec[: 4 - less], statements=what)
        large = {"data": 512, "model": 8, "stage": 5}
        for shape, spec in (
            ((7, 40960, 3), (None, ("stage", "data", "model"), None)),
            ((4096, 35), (("model", "data"), "stage")),
        ):
            yield Case(shape, large, spec, statements=unasked)
        for shape, sizes, spec in (
            ((5, 7), {"i": 3}, (None, "i")),
            ((24, 12), {"a": 4, "b": 6}, (None, ("a", "b"))),
            ((1, 10), {"a": 5, "b": 2}, ("b", "a")),
            ((10**6, 8), {"a": 1, "b": 3, "c": 11}, (("a", "b", "c"),)),
            ((8, 8), {"i": 2}, ("i", "j")),
            ((8, 8), {"data": 4, "model": 2}, (None, ("model", "sequence"))),
            ((8, 8), {}, ("data",)),
        ):
            yield Case(shape, sizes, spec)

    expect_like_solution(
        predict_layout,
        cases,
        value="block and count",
        error="mistakes raise",
        **RULES,
        free={"layout collectives sent arrays compiles": "there are no arrays"},
    )


def reference_run(params, x, y, lr, num_steps):  # what data_parallel_run returns
    params, losses = reference_sgd(params, x, y, lr, num_steps, reference_relu_layers)
    return {"params": params, "losses": losses}


def reference_mlp(params, x):
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        x = np.maximum(np.float64(x) @ w1, 0) @ w2
    return x


# Of 24 rows and 48 hidden units on (2, 4) devices; a device's own are (12, 12).
UNCUT = {
    "the hidden layer is gathered: the second product can take it as it is": lambda s: (
        any(one.kind == "all-gather" and one.shape == (12, 12) for one in s.collectives)
    ),
    "a device computes all hidden units of its rows": lambda s: (
        (12, 48) in s.array_shapes
    ),
    "a device computes all rows of its hidden units": lambda s: (
        (24, 12) in s.array_shapes
    ),
    "every device computes everything": lambda s: (24, 48) in s.array_shapes,
}


def tensor_parallel_run(params, x, mesh_shape):  # as its caller does: inside jit
    return jax.jit(tensor_parallel_mlp, static_argnums=2)(params, x, mesh_shape)


def noting_changes(function, changed):  # in the dict of a caller inside jit
    def caller(params, *rest):
        before = dict(params)
        found = function(params, *rest)
        changed.extend(name for name in before if params.get(name) is not before[name])
        return found

    return caller


def weights_exchanged(params, x, mesh_shape):  # by name, in the caller's dict
    changed = []
    caller = noting_changes(tensor_parallel_mlp, changed)
    jax.jit(caller, static_argnums=2)(params, x, mesh_shape)
    return changed


def from_whole(params, x, mesh_shape):  # who computes what nobody has split?
    whole = NamedSharding(make_mesh(mesh_shape, ("data", "model")), P())
    return tensor_parallel_run(*jax.device_put((params, x), whole), mesh_shape)


@visible(
    "tensor_parallel_mlp",
    points=3,
    essential=["same numbers", "own rows, own units", "sharded weights and output"],
    others=["one all-reduce per layer", "arguments stay", "nothing is remembered"],
)
def examples_of_tensor_parallel_mlp():
    params, x, _ = mlp_case(3, 24, 8, 48, layers=3)
    y = reference_mlp(params, x)
    by_columns, by_rows = (None, None, "model"), (None, "model")
    averaged = "the parts of a sum were averaged"
    replicated = "replicated: inside jit a constraint shards, device_put does not"
    along_w = "this shards W, not H"
    for data, model in ((2, 4), (1, 8)):
        grid = (data, model), ("data", "model")
        seen = observe(tensor_parallel_run, params, x, (data, model), compiled=True)
        causes = {averaged: (params, y / model**3)}
        with statement("same numbers"):
            expect_close(seen, (params, y), rtol=1e-4, atol=1e-5, mistakes=causes)
        with statement("sharded weights and output"):
            for name, path, spec, other in (
                ("w1", '[0]["w1"]', by_columns, by_rows),
                ("w2", '[0]["w2"]', by_rows, by_columns),
                ("y", "[1]", ("data",), None),
            ):
                causes = {along_w: other} if other else {}
                causes[replicated] = ()
                expect_layout(seen, {name: (path, spec)}, *grid, mistakes=causes)
        if len({piece.index for piece in seen.layout.get('[0]["w1"]', ())}) == 1:
            continue  # placed by device_put: a trace follows it, and jit does not
        own = 24 // data, 48 // model
        with statement("own rows, own units"):
            for shape in {(24, 48), (own[0], 48), (24, own[1])} - {own}:
                expect_arrays(seen, never=shape, causes=UNCUT)
        once = 3 * 2 * (model - 1) / model * 4 * 24 / data * 8  # bytes, for 3 layers
        with statement("one all-reduce per layer"):
            expect_moved(seen, at_least=once, at_most=once)
            expect_collectives(seen, {"all-reduce": 3})


@hidden("tensor_parallel_mlp")
def cases_of_tensor_parallel_mlp():
    def cases(rng):
        for mesh_shape, sizes, as_array in (
            ((1, 1), (5, 1, 2, 2), np.asarray),
            ((1, 1), (5, 1, 2, 2), np.asarray),
            ((8, 1), (64, 3, 5, 1), jnp.asarray),
            ((8, 1), (64, 3, 5, 1), jnp.asarray),
        ):
            inputs = mlp_case(int(rng.integers(10**6)), *sizes)[:2]
            params, x = jax.tree.map(as_array, inputs)
            yield Case(params, 10 * x + 1, mesh_shape)

    def program_cases(rng):
        for mesh_shape, sizes in (
            ((3, 2), (27, 2, 14, 1)),
            ((2, 4), (6144, 5, 20, 3)),
            ((4, 1), (28, 3, 5, 2)),
            ((2, 2), (6, 6, 2, 1)),
        ):
            yield Case(*mlp_case(int(rng.integers(10**6)), *sizes)[:2], mesh_shape)

    unsaid = {"error": "it raises none", "compiles": "nothing is said"}
    unsaid["collectives"] = "in a loop or not; of one device or not at all"
    expect_like_solution(
        tensor_parallel_run,
        cases,
        one_by_one=-1,
        layout="sharded weights and output",
        value="same numbers",
        **RULES,
        free=unsaid | {"arrays sent": "below"},
    )
    expect_like_solution(
        from_whole,
        program_cases,
        compiled=True,
        scales=(),  # other numbers make no other program; their values: above
        value="same numbers",
        layout="sharded weights and output",
        flops="own rows, own units",
        sent="one all-reduce per layer",
        free=unsaid | {"arguments": "above", "arrays": "x may be gathered"},
    )
    long = mlp_case(4, 512, 128, 512)[:2]
    seen = observe(from_whole, *long, (2, 2), compiled=True)
    with statement("one all-reduce per layer"):
        expect_collectives(seen, {"all-reduce": 2})
    seen = observe(weights_exchanged, *mlp_case(4, 4, 3, 6)[:2], (2, 2))
    with statement("same numbers"):
        expect_result(seen)
    with statement("arguments stay"):
        expect(seen, not seen.value, "The caller's dict of parameters was changed.")


def state_layout(specs, path=""):  # of make_state's state, at a path in a result
    adam = f'{path}["adam"][0]'
    parts = {"": f'{path}["params"]', "Adam's mu of ": f"{adam}[1]"}
    parts["Adam's nu of "] = f"{adam}[2]"
    pairs = itertools.product(parts.items(), specs.items())
    where = {text + k: (f'{part}["{k}"]', spec) for (text, part), (k, spec) in pairs}
    return where | {"Adam's count": (f"{adam}[0]", ())}


INIT_MESH = (2, 4), ("data", "model")
INIT_SPECS = {"w1": (None, "data", "model"), "w2": (None, "model", None)}


def init_from_reversed(key, num_layers, width, mesh_shape, names, specs):
    specs = dict(sorted(specs.items(), reverse=True))  # its order means nothing
    return init_sharded(key, num_layers, width, mesh_shape, names, specs)


WHOLE = "Arrays as large as the weights are made outside of a sharding jit."


def makes_whole(seen, size):  # in one of its steps
    expect_traced(seen)
    return any(math.prod(shape) >= size for _, made in seen.steps for shape in made)


@visible(
    "init_sharded",
    points=2,
    essential=["same numbers", "sharded as asked", "never a full copy"],
    others=["arguments stay", "nothing is remembered"],
)
def examples_of_init_sharded():
    call = jax.random.key(3), 3, 16, *INIT_MESH, INIT_SPECS
    placed = observe(init_sharded, *call)
    seen = observe(init_sharded, *call, compiled=True)
    with statement("same numbers"):
        expect_close(seen, make_state(*call[:3]), rtol=1e-4, atol=1e-6)
    where, unused = state_layout(INIT_SPECS), {"replicated on every device": ()}
    weights = {name: where[name] for name in INIT_SPECS}
    moments = "Adam's moments are on one device: out_shardings place them, too"
    count = "Adam's count is on one device: out_shardings place it, too"
    causes = {
        cause: lambda seen, path=where[name][0]: len(seen.layout.get(path, ())) == 1
        for cause, name in ((moments, "Adam's mu of w1"), (count, "Adam's count"))
    }
    is_split = not makes_whole(seen, 3 * 16 * 16)  # else it tells no layout
    with statement("sharded as asked"):
        for one in (placed, *[seen] * is_split):
            expect_layout(one, weights, *INIT_MESH, mistakes=unused)
            expect_layout(one, where, *INIT_MESH, mistakes=unused, causes=causes)
    with statement("never a full copy"):
        for whole_shape in ((3, 16, 16), (2, 3, 16, 16)):
            expect_arrays(seen, never=whole_shape)
        expect(seen, is_split, WHOLE)


@hidden("init_sharded")
def cases_of_init_sharded():
    def cases(rng):
        for names, w1, w2 in (
            # JAX 0.12 aborts where ("j", "i") meets a second weight split by both.
            (("i", "j"), ("j", None, "i"), (None, ("i", "j"))),
            (("x",), (None, "x"), ("x",)),
            (("c", "b", "a"), (None, "c", "a"), ("b",)),
        ):
            key = jax.random.split(jax.random.key(int(rng.integers(10**6))))[1]
            shape = {1: (2,), 2: (3, 2), 3: (2, 2, 2)}[len(names)]
            how = shape, names, {"w1": w1, "w2": w2}
            # Given, since there is no float array whose rounding would decide it.
            yield Case(key, 2, 6, *how, rtol=0.0, atol=2e-6)

    expect_like_solution(
        init_sharded,
        cases,
        value="same numbers",
        layout="sharded as asked",
        **RULES,
        free={"error": "none", "collectives sent arrays compiles": "seen above"},
    )
    key = jax.random.key(3)
    specs = {"w1": ("model",), "w2": ("data",)}
    seen = observe(init_sharded, key, 4, 24, *INIT_MESH, specs, compiled=True)
    with statement("never a full copy"):
        expect_arrays(seen, largest=4 * 24 * 24 // 2)
        expect(seen, not makes_whole(seen, 4 * 24 * 24), WHOLE)
    specs = {"w1": (None, "model", "data"), "w2": (None, "data")}  # the example's mesh
    seen = observe(init_from_reversed, key, 3, 16, *INIT_MESH, specs)
    with statement("sharded as asked"):
        expect_layout(seen, state_layout(specs), *INIT_MESH)


@functools.lru_cache(maxsize=8)
def fsdp_step_once(fsdp_step, tree, *leaves):  # one step for many calls, as in training
    return fsdp_step(jax.tree.unflatten(tree, leaves))


def fsdp_steps(params, x, y, specs, num_steps, num_devices, moments, begun):
    # The specs of weights and of moments; the steps that Adam has counted before.
    mesh = make_mesh((num_devices,), ("data",))
    kinds = jax.eval_shape(make_adam().init, params)
    adam = jax.tree.map(
        lambda a: np.full(a.shape, 0 if a.ndim else begun, a.dtype), kinds
    )
    new = {"params": params, "adam": adam}
    shardings = state_shardings(mesh, new, specs, moments)
    leaves, tree = jax.tree.flatten(shardings)
    step = fsdp_step_once(fsdp_step, tree, *leaves)
    new = jax.tree.map(jax.device_put, new, shardings)
    losses, alive = [], 0
    for _ in range(num_steps):
        rows = jax.device_put((x, y), NamedSharding(mesh, P("data")))  # a fresh batch
        old, (new, loss) = new, step(new, *rows)
        losses.append(loss)
        alive += sum(
            not array.is_deleted()
            for array in jax.tree.leaves(old)
            if not isinstance(array, jax.core.Tracer)
        )
    return {"state": new, "losses": losses}, alive


def fsdp_run(params, x, y, specs, num_steps, num_devices, moments=None, begun=0):
    how = specs, num_steps, num_devices, moments, begun
    return fsdp_steps(params, x, y, *how)[0]


def arrays_alive(params, x, y, specs, num_steps, num_devices):
    return fsdp_steps(params, x, y, specs, num_steps, num_devices, None, 0)[1]


def reference_fsdp(params, x, y, num_steps):  # what fsdp_run returns, and a mistake
    def grads(params):
        return reference_relu_layers(params, x, y)

    _, _, _, losses = reference_adamw(params, [0.003] * (num_steps + 1), grads)
    params, mu, nu, _ = reference_adamw(params, [0.003] * num_steps, grads)
    state = {"params": params, "adam": ((np.int32(num_steps), mu, nu), ())}
    expected = {"state": state, "losses": losses[:-1]}
    later = expected | {"losses": losses[1:]}
    return expected, {"the loss is the one after the step": later}


def shardings_kept(params, specs):  # whether the tree of shardings stays
    state = {"params": params, "adam": make_adam().init(params)}
    shardings = state_shardings(make_mesh((2,), ("data",)), state, specs)
    before = jax.tree.structure(shardings)
    fsdp_step(shardings)
    return jax.tree.structure(shardings) == before


def donated(params, x, y, specs, num_devices):  # arrays, by the program
    state = {"params": params, "adam": make_adam().init(params)}
    shardings = state_shardings(make_mesh((num_devices,), ("data",)), state, specs)
    state = jax.tree.map(jax.device_put, state, shardings)
    return num_donated(fsdp_step(shardings), state, x, y)


def expect_none_alive(seen):
    expect(seen, seen.value == 0, "Arrays of the old state still exist after the step.")


def expect_gathers(seen, params, num_devices):  # of one layer, twice, and little else
    gathers = [one for one in seen.collectives or () if one.kind == "all-gather"]
    largest = max((one.shape for one in gathers), key=math.prod, default=())
    most = params["w1"][0].size // num_devices
    headline = f"A device puts {list(largest)} into an all-gather: several layers."
    rows = {"expected": f"its part of one layer's weights, {most} numbers"}
    early = "the weights of all layers are gathered before the loop over layers"
    rows["causes"] = {early: lambda _: all(not one.in_loop for one in gathers)}
    expect(seen, math.prod(largest) <= most, headline, **rows)
    found = sum(one.bytes_moved for one in gathers)
    part = (num_devices - 1) / num_devices  # of an array, which a ring sends
    once = part * sum(leaf.nbytes for leaf in params.values())
    kept = "gathered weights are kept for the backward pass"
    again = "weights are gathered three times: the forward pass runs twice"
    causes = {kept: lambda _: math.isclose(found, once)}
    causes[again] = lambda _: math.isclose(found, 3 * once)
    rows = {"causes": causes}
    rows["expected"] = f"{2 * once:,.0f} bytes"
    headline = f"A device sends {found:,.0f} bytes of weights."
    expect(seen, math.isclose(found, 2 * once), headline, **rows)
    loss = math.ceil(2 * part * 4)  # the gradients take as much as both gathers
    expect_moved(seen, at_most=4 * once + loss)
    cause = "gradients or moments are replicated: they can be sharded like the weights"
    reduced = [one.shape for one in seen.collectives if one.kind == "all-reduce"]
    for leaf in params.values():
        causes = {cause: lambda _, leaf=leaf: {leaf.shape, leaf.shape[1:]} & {*reduced}}
        expect_arrays(seen, never=leaf.shape, causes=causes)


@visible(
    "fsdp_step",
    points=3,
    essential=["same numbers", "stays sharded", "own rows", "layer by layer"],
    others=[
        "state donated",
        "no recompilation",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_fsdp_step():
    params, x, y = mlp_case(5, 32, 16, 40)
    split, whole = specs_by({"embed": "data"}), specs_by({})
    one = observe(fsdp_run, params, x, y, split, 1, 8, compiled=True)
    four = observe(fsdp_run, params, x, y, split, 4, 8)
    expected, mistakes = reference_fsdp(params, x, y, 4)
    old = "the state of Adam is the old one: return what its update returns"
    causes = {old: lambda s: s.value["state"]["adam"][0][0] == 0}
    close = {"rtol": 1e-3, "atol": 1e-5}
    with statement("same numbers"):
        expect_close(four, expected, **close, mistakes=mistakes, causes=causes)
    zero = observe(fsdp_run, params, x, y, whole, 2, 8, split)  # ZeRO-1
    with statement("stays sharded"):
        for name, leaf in state_layout(split, '["state"]').items():
            causes = {"replicated on every device": ()}
            expect_layout(four, {name: leaf}, (8,), ("data",), mistakes=causes)
            leaf = (leaf[0], ()) if name in whole else leaf
            moments = "the weights came out sharded like their moments"
            causes = {moments: split[name]} if name in whole else {}
            expect_layout(zero, {name: leaf}, (8,), ("data",), mistakes=causes)
    alive = observe(arrays_alive, params, x, y, split, 4, 8)
    with statement("state donated"):
        expect_none_alive(alive)
    with statement("no recompilation"):
        count = four.num_compiles
        headline = f"After a first step, four steps compiled {count} programs."
        expected = "the program of the first step, again"
        expect(four, count == 0, headline, expected=expected)
    every = "every device computes all rows of the batch"
    work = 6 * 32 * sum(leaf.size for leaf in params.values())  # FLOPs of a step
    causes = {every: lambda s: s.flops > work / 2}
    with statement("own rows"):
        expect_arrays(one, never=(32, 40), causes=causes)
    with statement("layer by layer"):
        expect_gathers(one, params, 8)


@hidden("fsdp_step")
def cases_of_fsdp_step():
    split, other = specs_by({"embed": "data"}), specs_by({"hidden": "data"})
    whole = specs_by({})

    def cases(rng):
        for num_devices, sizes, *specs in (
            (2, (4, 2, 2, 1), whole, split, 7),
            (3, (9, 3, 6, 3), other),
            (3, (9, 3, 6, 2), split),
            (3, (9, 3, 6, 2), split),
        ):
            params, *data = mlp_case(int(rng.integers(10**6)), *sizes)
            params["w1"][0, :, 0] = params["w2"][0, 0] = 0  # a unit without a gradient
            specs, *more = specs
            how = specs, 2, num_devices, *more
            yield Case(params, *data, *how)

    expect_like_solution(
        fsdp_run,
        cases,
        scales=(0, 0.05, 30),  # some gradients near the eps of Adam, others large
        one_by_one=-1,
        value="same numbers",
        memory="nothing is remembered",
        layout="stays sharded",
        compiles="no recompilation",
        free={
            "error": "it raises none",
            "collectives sent arrays": "below",
            "arguments": "donated",
        },
    )
    params, *data = mlp_case(0, 9, 3, 6)
    seen = observe(arrays_alive, params, *data, split, 2, 3)
    with statement("state donated"):
        expect_none_alive(seen)
    seen = observe(donated, params, *data, split, 3)
    headline = "The step's program does not donate the old state, or more than it."
    with statement("state donated"):
        expect(seen, seen.value == 7, headline, expected="the state's 7 arrays")
    seen = observe(shardings_kept, params, split)
    with statement("arguments stay"):
        expect(seen, seen.value, "The caller's tree of shardings was changed.")
    params, *data = mlp_case(6, 6144, 6, 5, layers=3)
    seen = observe(fsdp_run, params, *data, split, 1, 3, compiled=True)
    with statement("stays sharded"):
        expect_layout(seen, state_layout(split, '["state"]'), (3,), ("data",))
    with statement("own rows"):
        expect_arrays(seen, never=(6144, 5))
    with statement("layer by layer"):
        expect_gathers(seen, params, 3)


AXES = {"w1": ("layer", "embed", "hidden"), "w2": ("layer", "hidden", "embed")}


def fits_in(shapes, nodes, gpus, memory):  # whether the chosen layout does
    given = dict(shapes)
    mesh_shape, rules = choose_layout(shapes, nodes, gpus, memory)
    return held_by(mesh_shape, rules, given) <= memory


def held_by(mesh_shape, rules, shapes):  # bytes of the state that a GPU holds
    total = 0
    for name, axes in AXES.items():
        parts = math.prod(mesh_shape[one] for one in axes_of(rules, *axes))
        total += 16 * math.prod(shapes[name]) / parts
    return total


def axes_of(rules, *names):  # the mesh axes that shard these logical axes
    entries = [rules.get(name) or () for name in names]
    entries = [(one,) if isinstance(one, str) else one for one in entries]
    return [*itertools.chain(*entries)]


def layers_loss(params, x):
    def layer(x, w):
        return jax.nn.relu(x @ w["w1"]) @ w["w2"], None

    return jnp.mean((jax.lax.scan(layer, x, params)[0] - x) ** 2)


def planned(mesh_axes, rules, shapes, nodes, gpus):
    # A step's gradients: bytes that a GPU sends between nodes, its FLOPs, and whether
    # it sends activations between nodes. Pairs keep the order of the mesh's axes.
    on, (names, sizes) = f"h100:{nodes}x{gpus}", zip(*mesh_axes, strict=True)
    types = (AxisType.Auto,) * len(names)
    mesh = jax.make_mesh(sizes, names, axis_types=types, devices=devices(on))

    def placed(shape, axes):
        sharding = NamedSharding(mesh, P(*map(rules.get, axes)))
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    params = {name: placed(shapes[name], axes) for name, axes in AXES.items()}
    kept = {name: leaf.sharding for name, leaf in params.items()}
    x = placed((NUM_ROWS, shapes["w1"][1]), ("batch",))
    step = jax.jit(jax.value_and_grad(layers_loss), out_shardings=(None, kept))
    found = plan(step, params, x, on=on, tell_s=math.inf)
    rows = x.sharding.shard_shape(x.shape)[0]
    network = [one.array for one in found.sent if one.link == "network"]
    return {
        "sent": found.links.get("network", 0.0) * found.on.chip.network_rate,
        "flops": found.flops,
        "activations": any(array.startswith(f"f32[{rows},") for array in network),
    }


NUM_ROWS = 8 * 6 * 64  # far more than a model here is wide


def least_between(shapes, nodes, gpus, used):  # bytes, if `used` nodes hold a copy
    own = 4 * sum(map(math.prod, shapes.values())) / gpus
    replicas = nodes // used
    gathers = 3 * (used - 1) / used  # forward, backward, and of the gradients
    return own * (gathers + 2 * (replicas - 1) / replicas / used)


def is_layout(value):
    match value:
        case dict(sizes), dict(rules):
            names = [(a,) if isinstance(a, str) else a or () for a in rules.values()]
            known = {name for axes in names for name in axes} <= {*sizes}
            return known and all(type(size) is int for size in sizes.values())
    return False


def try_choice(seen, shapes, nodes, gpus, memory, used):
    """Tries a choice; `used` nodes is the fewest that can hold a copy."""
    count, facts = 0, None
    if is_layout(seen.value):
        sizes, rules = seen.value
        count, held = math.prod(sizes.values()), held_by(sizes, rules, shapes)
        whole = 16 * sum(map(math.prod, shapes.values()))
    if count == nodes * gpus:
        call = tuple(sizes.items()), rules, shapes, nodes, gpus
        facts = observe(planned, *call, clean=True)
    with statement("fits", "all devices work", "least between nodes"):
        expect_result(seen)
        form = "({name: size, ...}, {name: axes of this mesh, ...})"
        expect(seen, count, "This is no layout.", expected=form)
    if not count:
        return
    with statement("fits"):
        headline = f"A GPU's blocks need {held:,.0f} bytes."
        causes = {
            "nothing shards the weights": lambda _: math.isclose(held, whole),
            "the GPUs of one node do not hold a copy of the weights here": lambda _: (
                math.isclose(held * gpus, whole)
            ),
            "weights, gradients and both moments count: 16 bytes for each number": (
                lambda _: held <= 4 * memory
            ),
        }
        rows = {"expected": f"at most {memory:,.0f} bytes", "causes": causes}
        expect(seen, held <= memory, headline, **rows)
    with statement("all devices work", "least between nodes"):
        headline = f"The mesh has {count} devices."
        expected = f"{nodes * gpus}, all GPUs of all nodes"
        expect(seen, facts, headline, expected=expected)
        expect_result(facts)
    if not facts or facts.error:
        return
    with statement("all devices work"):
        own = 6 * NUM_ROWS * sum(map(math.prod, shapes.values())) / (nodes * gpus)
        headline = f"A GPU computes {facts.value['flops']:,.0f} FLOPs in a step."
        expected = f"its share, {own:,.0f}"
        expect(seen, facts.value["flops"] < 1.1 * own, headline, expected=expected)
    with statement("least between nodes"):
        sent, most = facts.value["sent"], least_between(shapes, nodes, gpus, used)
        headline = f"A GPU sends {sent:,.0f} bytes between nodes in a step."
        unused = {*axes_of(rules, "embed")} - {*axes_of(rules, "batch", "hidden")}
        causes = {
            "the groups cross the nodes: the last axis of a mesh is within one": (
                lambda _: (
                    observe(planned, call[0][::-1], *call[1:], clean=True).value["sent"]
                    <= 1.01 * most + 100
                )
            ),
            "the batch is not sharded over the axis that shards the weights": (
                lambda _: unused
            ),
            "tensor parallelism between nodes sends activations there": lambda _: (
                facts.value["activations"]
            ),
            "fewer nodes could hold a copy of the weights": lambda _: (
                held * used * gpus < 0.99 * whole
            ),
        }
        rows = {"expected": f"at most {most:,.0f} bytes", "causes": causes}
        expect(seen, sent <= 1.01 * most + 100, headline, **rows)


def square(num_layers, width):
    return dict.fromkeys(AXES, (num_layers, width, width))


@visible(
    "choose_layout",
    points=3,
    essential=["fits", "least between nodes", "all devices work"],
    others=["too large", "arguments stay", "nothing is remembered"],
)
def examples_of_choose_layout():
    shapes = square(3, 32)
    all_bytes = 16 * sum(map(math.prod, shapes.values()))
    # Of 16 nodes, five hold a copy, but 16 is no multiple of 5, 6 or 7.
    for nodes, gpus, parts, used in ((2, 8, 7.0, 1), (16, 2, 9.0, 8)):
        call = shapes, nodes, gpus, all_bytes / parts
        try_choice(observe(choose_layout, *call), *call, used)
    mistaken = observe(choose_layout, shapes, 2, 8, all_bytes / 16 - 1)
    with statement("too large"):
        expect_error(mistaken, "ValueError")


@hidden("choose_layout")
def cases_of_choose_layout():
    shapes = {"w1": (2, 24, 48), "w2": (2, 48, 24)}
    all_bytes = 16 * sum(map(math.prod, shapes.values()))
    call = shapes, 3, 2, all_bytes / 2.5
    try_choice(observe(choose_layout, *call), *call, 3)

    def cases(rng):
        for nodes, gpus, parts in (
            *((1, 8, 8), (1, 8, 7.9), (1, 8, 0.5), (1, 1, 1), (8, 1, 4), (8, 1, 8)),
            *((16, 8, 8), (16, 8, 100), (16, 8, 127.5), (64, 8, 130), (6, 4, 12)),
        ):
            width = 2 * nodes * gpus * int(rng.integers(1, 5))
            shapes = square(int(rng.integers(1, 9)), width)
            all_bytes = 16.0 * sum(map(math.prod, shapes.values()))
            yield Case(shapes, nodes, gpus, all_bytes / parts)
        for parts in (8, 16):  # what fits depends on the memory
            yield Case(square(1, 64), 4, 8, 16.0 * 2 * 64**2 / parts)
        for nodes, gpus in ((1, 8), (2, 4), (3, 2), (16, 8)):
            shapes = square(2, 3 * nodes * gpus)
            own = 16.0 * sum(map(math.prod, shapes.values())) / (nodes * gpus)
            yield Case(shapes, nodes, gpus, own - 1)
            yield Case(shapes, nodes, gpus, own)  # now it fits

    expect_like_solution(
        fits_in,
        cases,
        value="fits",
        error="too large",
        **RULES,
        scales=(),  # of bytes: 0 would be no memory
        free={"layout collectives sent arrays compiles": "there are no arrays"},
    )


def on_explicit_axes(
    function, params, x, mesh_shape, spec
):  # x is sharded as spec says
    kinds = (AxisType.Explicit,) * 2
    mesh = jax.make_mesh(mesh_shape, ("data", "model"), axis_types=kinds)
    with jax.set_mesh(mesh):
        w1 = jax.sharding.reshard(params["w1"], P(None, None, "model"))
        w2 = jax.sharding.reshard(params["w2"], P(None, "model", None))
        x = jax.sharding.reshard(x, P(*spec))
        return jax.jit(function)({"w1": w1, "w2": w2}, x)


def explicit_run(params, x, mesh_shape, spec):
    return on_explicit_axes(explicit_mlp, params, x, mesh_shape, spec)


def explicit_weights_exchanged(params, x, mesh_shape, spec):
    changed = []
    caller = noting_changes(explicit_mlp, changed)
    on_explicit_axes(caller, params, x, mesh_shape, spec)
    return changed


@visible(
    "explicit_mlp",
    points=2,
    essential=["same numbers", "own rows, own units"],
    others=[
        "output by rows",
        "any layout of x",
        "one all-reduce per layer",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_explicit_mlp():
    params, x, _ = mlp_case(9, 24, 8, 48, layers=3)
    y, averaged = reference_mlp(params, x), "the parts of a sum were averaged"
    grid = (2, 4), ("data", "model")
    for what, spec in (
        ("same numbers", ("data",)),
        ("any layout of x", ()),
        ("any layout of x", ("model", "data")),
    ):
        seen = observe(explicit_run, params, x, (2, 4), spec, compiled=True)
        with statement(what):
            expect_close(seen, y, rtol=1e-4, atol=1e-5, mistakes={averaged: y / 4**3})
        causes = {
            "replicated on every device": (),
            "the output is sharded as x was": spec,
        }
        if seen.error:
            continue  # of this layout alone
        with statement("output by rows" if spec == ("data",) else what):
            expect_layout(seen, {"y": ("", ("data",))}, *grid, mistakes=causes)
        with statement("own rows, own units"):
            for shape in ((24, 48), (12, 48), (24, 12)):
                expect_arrays(seen, never=shape, causes=UNCUT)
        if spec == ("data",):
            once = 3 * 2 * 3 / 4 * 4 * 12 * 8  # bytes, for 3 layers
            with statement("one all-reduce per layer"):
                expect_moved(seen, at_least=once, at_most=once)
                expect_collectives(seen, {"all-reduce": 3})


@hidden("explicit_mlp")
def cases_of_explicit_mlp():
    def cases(rng):
        for mesh_shape, sizes, spec in (
            ((1, 1), (5, 1, 2, 2), ()),
            ((8, 1), (16, 3, 5, 1), ("data",)),
            ((1, 8), (3, 2, 16, 1), ()),
            ((3, 2), (12, 6, 14, 2), (None, "model")),
            ((3, 2), (12, 6, 14, 2), (None, "model")),
            ((2, 2), (4, 6, 2, 1), (("model", "data"),)),
        ):
            params, x = mlp_case(int(rng.integers(10**6)), *sizes)[:2]
            what = () if spec == ("data",) else "any layout of x"
            yield Case(params, 10 * x + 1, mesh_shape, spec, statements=what)

    def program_cases(rng):
        for mesh_shape, sizes, spec in (
            ((3, 2), (27, 2, 14, 1), ("data",)),
            ((2, 4), (6144, 5, 20, 3), ()),
            ((4, 1), (28, 4, 5, 2), (None, "data")),
            ((2, 2), (28, 4, 6, 2), ("data", "model")),
        ):
            params, x, _ = mlp_case(int(rng.integers(10**6)), *sizes)
            what = () if spec == ("data",) else "any layout of x"
            yield Case(params, x, mesh_shape, spec, statements=what)

    def of(drawn, is_any):  # cases where x comes in any layout, or by rows
        return lambda rng: (one for one in drawn(rng) if bool(one.statements) == is_any)

    unsaid = {"error": "it raises none", "compiles": "nothing is said"}
    unsaid["collectives"] = "in a loop or not; of one device or not at all"
    for is_any, layout in ((False, "output by rows"), (True, "any layout of x")):
        expect_like_solution(
            explicit_run,
            of(cases, is_any),
            one_by_one=-1,
            layout=layout,
            value="same numbers",
            **RULES,
            free=unsaid | {"arrays sent": "below"},
        )
        expect_like_solution(
            explicit_run,
            of(program_cases, is_any),
            compiled=True,
            scales=(),  # other numbers make no other program; their values: above
            value="same numbers",
            layout=layout,
            flops="own rows, own units",
            sent="one all-reduce per layer",
            free=unsaid | {"arguments": "above", "arrays": "x may be gathered"},
        )
    long = mlp_case(4, 512, 128, 512)[:2]
    seen = observe(explicit_run, *long, (2, 2), ("data",), compiled=True)
    with statement("one all-reduce per layer"):
        expect_collectives(seen, {"all-reduce": 2})
    seen = observe(
        explicit_weights_exchanged, *mlp_case(4, 4, 3, 6)[:2], (2, 2), ("data",)
    )
    with statement("same numbers"):
        expect_result(seen)
    with statement("arguments stay"):
        expect(seen, not seen.value, "The caller's dict of parameters was changed.")


@visible(
    "sharded_matmul",
    points=3,
    essential=["same product", "own part of K", "one reduce-scatter"],
    others=["rows come out", "arguments stay", "nothing is remembered"],
)
def examples_of_sharded_matmul():
    rng = np.random.default_rng(8)
    a, b = np.float32(rng.normal(size=(16, 24))), np.float32(rng.normal(size=(24, 5)))
    product = np.float64(a) @ b
    twice = "every device had all of K, and the copies were summed"
    for count in (8, 4):
        grid = np.float64(a).reshape(count, 16 // count, count, -1)
        own = np.einsum("dmdk,dkn->dmn", grid, b.reshape(count, -1, 5)).reshape(16, 5)
        causes = {"the parts were not summed": own, twice: count * product}
        seen = observe(sharded_matmul, a, b, count, compiled=True)
        with statement("same product"):
            expect_close(seen, product, rtol=1e-4, atol=1e-5, mistakes=causes)
        if seen.error:
            continue  # with other numbers for other devices
        causes = {"replicated on every device": ()}
        where = {"the result": ("", ("i",))}
        with statement("rows come out"):
            expect_layout(seen, where, (count,), ("i",), mistakes=causes)
        summed = "an all-reduce gives every device all rows, and sends twice as much"
        causes = {summed: lambda s: {"all-reduce"} == {c.kind for c in s.collectives}}
        with statement("one reduce-scatter"):
            expect_collectives(seen, {"reduce-scatter": 1}, causes=causes)
        with statement("own part of K"):
            for whole in (a, b):
                expect_arrays(seen, never=whole.shape)


@hidden("sharded_matmul")
def cases_of_sharded_matmul():
    def cases(rng):
        for m, k, n, num_devices in (
            (2, 2, 3, 2),
            (2, 2, 3, 2),
            (8, 8, 1, 8),
            (40, 80, 9, 4),  # larger than on the page
            (3, 6, 9, 3),
        ):
            a, b = (np.float32(rng.normal(size=size)) for size in ((m, k), (k, n)))
            yield Case(30 * a + 10, b, num_devices)
        a, b = a[:3, :2], a[:2, :2]
        yield from (Case(a, b, 1), Case(jnp.array(a), jnp.array(b), 1))

    def program_cases(rng):
        for m, k, n, num_devices in (
            (3, 27, 2, 3),
            (12, 60, 5, 6),
            # Long ones. Products of single rows make a program of as many lines.
            *((2, 2, 6144, 2), (2, 6144, 1, 2), (256, 2, 1, 2)),
        ):
            a, b = (np.float32(rng.normal(size=size)) for size in ((m, k), (k, n)))
            yield Case(a, b, num_devices)

    unsaid = {"error": "it raises none", "compiles": "nothing is said"}
    expect_like_solution(
        sharded_matmul,
        cases,
        value="same product",
        layout="rows come out",
        **RULES,
        free=unsaid | {"collectives sent arrays": "below"},
    )
    expect_like_solution(
        sharded_matmul,
        program_cases,
        compiled=True,
        scales=(),  # other numbers make no other program; their values: above
        value="same product",
        layout="rows come out",
        collectives="one reduce-scatter",
        sent="one reduce-scatter",
        flops="own part of K",
        free=unsaid | {"arguments": "above", "arrays": "of any size"},
    )


def hsdp_inputs(params, xs, ys, nodes, gpus):
    mesh = make_mesh((nodes, gpus), ("node", "gpu"))
    on = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))
    where = [
        jax.tree.map(functools.partial(NamedSharding, mesh), one)
        for one in (on, rows, rows)
    ]
    return jax.device_put([params, xs, ys], where), mesh


def hsdp_run(params, xs, ys, lr, nodes, gpus):
    inputs, mesh = hsdp_inputs(params, xs, ys, nodes, gpus)
    params, loss = hsdp_step(*inputs, lr, mesh)
    return {"params": params, "losses": [loss]}


def hsdp_changed(params, xs, ys, lr):  # names of the caller's dict
    inputs, mesh = hsdp_inputs(params, xs, ys, 1, 1)
    before = dict(inputs[0])
    hsdp_step(*inputs, lr, mesh)
    return [name for name in before if inputs[0].get(name) is not before[name]]


def microbatches(seed, count, *sizes):  # params, xs, ys
    params, x, y = mlp_case(seed, *sizes)
    return params, *(a.reshape(count, -1, a.shape[1]) for a in (x, y))


def try_links(seen, params, count, nodes, gpus, num_rows):
    """Limits what travels between nodes and within them, and what a GPU computes.

    Two collectives are told apart by the size of their groups: nodes, GPUs of a node,
    or all.
    """
    with statement("own rows"):
        expect_traced(seen)
        numbers = sum(leaf.size for leaf in params.values())
        share = 8 * num_rows * numbers / nodes / gpus  # forward twice, then backward
        headline = f"A GPU computes {seen.flops:,.0f} FLOPs in a step."
        expect(
            seen, seen.flops < 2 * share, headline, expected=f"its share, {share:,.0f}"
        )
    own = sum(leaf.nbytes for leaf in params.values()) / gpus
    own_block = max(leaf.size for leaf in params.values()) / gpus
    between = [one for one in seen.collectives or () if one.devices != gpus]
    crossing = sum(one.bytes_moved if one.times else math.inf for one in between)
    once = 2 * (nodes - 1) / nodes * own + 8

    def any_between(*kinds, devices=(nodes, nodes * gpus), at_least=2, **more):
        return lambda _: any(
            one.kind in (kinds or (one.kind,))
            and one.devices in devices
            and math.prod(one.shape) >= at_least
            and all(getattr(one, name) == value for name, value in more.items())
            for one in between
        )

    causes = {
        "weights are gathered over all devices: FSDP, not HSDP": any_between(
            "all-gather", devices=[nodes * gpus]
        ),
        "the gradients of all nodes are gathered: an all-reduce sends less": (
            any_between("all-gather", devices=[nodes])
        ),
        "the gradients cross the network in every microbatch": any_between(
            in_loop=True
        ),
        "the loss crosses the network in every microbatch": any_between(
            at_least=0, in_loop=True
        ),
        "the gradients of all GPUs of a node cross: first reduce-scatter in the node": (
            any_between("all-reduce", at_least=own_block + 1)
        ),
        "the gradients are summed over all GPUs: each has the sum of its part": (
            any_between("all-reduce", devices=[nodes * gpus])
        ),
    }
    headline = f"A GPU sends {crossing:,.0f} bytes between nodes."
    rows = {"expected": f"at most {once:,.0f} bytes", "causes": causes}
    with statement("once between nodes"):
        expect(seen, crossing <= 1.01 * once, headline, **rows)
    inside = [one for one in seen.collectives or () if one.devices == gpus]
    found = sum(one.bytes_moved if one.times else math.inf for one in inside)
    most = 3 * count * (gpus - 1) * own + 64 * count
    reduced = "gradients are all-reduced in the node, not reduce-scattered"
    causes = {reduced: lambda _: any(one.kind == "all-reduce" for one in inside)}
    headline = f"A GPU sends {found:,.0f} bytes within its node."
    rows = {"expected": f"at most {most:,.0f} bytes", "causes": causes}
    if found > most or crossing <= 1.01 * once:  # what crosses may be what belongs here
        with statement("gathers in the node"):
            expect_traced(seen)
            expect(seen, found <= most, headline, **rows)
    own_layer = max(leaf[0].size for leaf in params.values()) // gpus
    gathered = [
        math.prod(one.shape)
        for one in seen.collectives or ()
        if one.kind == "all-gather"
    ]
    causes = {
        "the weights of all layers are gathered at once": lambda _: (
            max(gathered, default=0) > own_layer
        ),
        "the gathered weights are kept for the backward pass": lambda _: (
            0 < max(gathered, default=0) <= own_layer
        ),
    }
    with statement("layer by layer"):
        for leaf in params.values():
            expect_arrays(seen, never=leaf.shape, causes=causes)


def summed_blocks(old, new, name):  # if all GPUs of a node took the sum of their steps
    axis = {"w1": 1, "w2": 2}[name]
    parts = np.split(new[name] - old[name], 2, axis)
    return old[name] + np.concatenate([sum(parts)] * 2, axis)


@visible(
    "hsdp_step",
    points=3,
    essential=["same step", "own rows", "once between nodes"],
    others=[
        "gathers in the node",
        "layer by layer",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_hsdp_step():
    params, xs, ys = microbatches(21, 3, 3 * 16, 8, 20, 3)
    x, y = xs.reshape(-1, 8), ys.reshape(-1, 8)
    expected = reference_run(params, x, y, 0.05, 1)
    node = (a[:, :4].reshape(-1, 8) for a in (xs, ys))  # rows of the first of four
    own = reference_run(params, *node, 0.05 / 4, 1)["params"]
    mixed = {name: summed_blocks(params, expected["params"], name) for name in params}
    causes = {
        f"the gradients are {times} times too large: {why}": expected
        | {"params": reference_run(params, x, y, 0.05 * times, 1)["params"]}
        for times, why in (
            (2, "reduce-scatters sum over the GPUs of a node"),
            (3, "sums over microbatches are no means"),
            (4, "sums over nodes are no means"),
            (8, "sums over devices are no means"),
            (24, "sums over devices and microbatches are no means"),
        )
    }
    causes["the gradients are not summed over the nodes"] = expected | {"params": own}
    several = "the gradients are summed over GPUs that hold different parts of them"
    causes[several] = expected | {"params": mixed}
    seen = observe(hsdp_run, params, xs, ys, 0.05, 4, 2, compiled=True)
    layout = {
        "w1": ('["params"]["w1"]', (None, "gpu")),
        "w2": ('["params"]["w2"]', (None, None, "gpu")),
    }
    with statement("same step"):
        expect_close(seen, expected, rtol=1e-4, atol=1e-5, mistakes=causes)
        expect_layout(seen, layout, (4, 2), ("node", "gpu"))
    with statement("once between nodes", "layer by layer"):
        expect_traced(seen)
    try_links(seen, params, 3, 4, 2, len(x))


@hidden("hsdp_step")
def cases_of_hsdp_step():
    def cases(rng):
        inputs = microbatches(int(rng.integers(10**6)), 1, 12, 6, 4, 1)
        yield Case(*inputs, float(rng.uniform(0.01, 0.3)), 2, 3)

    expect_like_solution(
        hsdp_run,
        cases,
        scales=(),  # each call compiles anew, and a learning rate is halved
        value="same step",
        layout="same step",
        **RULES,
        free={
            "error": "it raises none",
            "collectives sent arrays": "below",
            "compiles": "nothing is said",
        },
    )
    seen = observe(hsdp_changed, *microbatches(23, 1, 2, 3, 4, 1), 0.1)
    with statement("arguments stay"):
        expect(seen, not seen.value, "The caller's dict of parameters was changed.")
    params, xs, ys = microbatches(22, 2, 2 * 16, 12, 7, 4)
    seen = observe(hsdp_run, params, xs, ys, 0.1, 2, 4, compiled=True)
    data = xs.reshape(-1, 12), ys.reshape(-1, 12)
    with statement("same step"):
        expected = reference_run(params, *data, 0.1, 1)
        expect_close(seen, expected, rtol=1e-4, atol=1e-5)
    with statement("once between nodes", "layer by layer"):
        expect_traced(seen)
    try_links(seen, params, 2, 2, 4, len(data[0]))


def product_by(columns, x, w):  # each piece p by columns(d, p) of device d's x
    count = len(w)
    parts = np.float64(x).reshape(count, -1, count, w.shape[1])
    d, p = np.indices((count, count))
    return np.einsum("dpmk,pkn->dmn", parts[d, :, columns(d, p) % count], w)


def first_row(x, w, axis_name):  # of the result, so that no array holds all
    return overlapped_matmul(x, w, axis_name)[:1]


def expect_pieces(seen, w):  # D - 1 of them are sent
    never = ["all-gather", "all-reduce", "reduce-scatter", "all-to-all"]
    cause = "all pieces were gathered before the product"
    causes = {cause: lambda seen: seen.collectives[0].kind == never[0]}
    expect_collectives(seen, never=[*never, "collective-broadcast"], causes=causes)
    cause = "the last send brings each piece home, where it was used first"
    sent = sum(one.bytes_moved for one in seen.collectives)
    causes = {cause: lambda _: sent == w.nbytes}
    expect_moved(seen, at_most=w[1:].nbytes, causes=causes)


def expect_free_sends(seen):
    expect_traced(seen)
    sends, products = (
        [needs for what, needs in seen.needs if what == name]
        for name in ("send", "product")
    )
    expected = "a ppermute of the piece that is multiplied"
    expect(seen, sends, "No piece is sent on.", expected=expected)
    waiting = sum(0 in needs for needs in sends)  # x is the first argument
    no_product_is_free = products and all(A_SEND in needs for needs in products)
    headline = f"Sends that depend on x, and so wait for a product: {waiting}."
    expected = "sends that are computed from w alone"
    expect(seen, not waiting, headline, expected=expected)
    headline = "Every product waits for a send."
    expected = "the product of the device's own piece, which needs no send"
    expect(seen, not no_product_is_free, headline, expected=expected)
    headline = "In a loop, each product waits for a send of the same round."
    expected = "in each round, a product of what an earlier round has sent"
    waits = any(OWN_SEND in needs for needs in products)
    expect(seen, not waits, headline, expected=expected)


def expect_flops(seen, x, w, at_most=1.1):  # times what one product takes
    expect_traced(seen)
    most, headline = 2 * x[0].size * w.shape[2], f"It takes {seen.flops:.0f} FLOPs."
    expected = f"about {most:.0f}, as x @ W takes"
    expect(seen, seen.flops < at_most * most, headline, expected=expected)


@visible(
    "overlapped_matmul",
    points=3,
    essential=["same product", "no full copy of W", "sends wait for no product"],
    others=["number of sends", "no extra arithmetic"],
)
def examples_of_overlapped_matmul():
    rng = np.random.default_rng(13)
    x, w = (np.float32(rng.normal(size=(8, *size))) for size in ((1, 24), (3, 7)))
    product = x @ np.float64(w).reshape(24, 7)
    own = [np.float64(x[d, :, 3 * d : 3 * d + 3]) @ w[d] for d in range(8)]
    causes = {
        "each device multiplied its own piece alone": np.stack(own),
        "all pieces met the same columns of x": product_by(lambda d, p: d, x, w),
        "the pieces come from the other side": product_by(lambda d, p: 2 * d - p, x, w),
        "each device began with the columns of piece 0": product_by(
            lambda d, p: p - d, x, w
        ),
    }
    seen = observe(overlapped_matmul, x, w, "i", axis="i", traced=True)
    with statement("same product"):
        expect_close(seen, product, rtol=1e-4, atol=1e-4, mistakes=causes)
    with statement("number of sends"):
        expect_pieces(seen, w)
    with statement("no full copy of W"):
        expect_arrays(seen, largest=w[:3].size - 1)  # of two pieces it may be
    with statement("sends wait for no product"):
        expect_free_sends(seen)
    x, w = (np.float32(rng.normal(size=(4, *size))) for size in ((24, 100), (25, 16)))
    seen = observe(overlapped_matmul, x, w, "i", axis="i", compiled=True)
    with statement("same product"):
        expect_result(seen)
    with statement("no extra arithmetic"):
        expect_flops(seen, x, w)


@hidden("overlapped_matmul")
def cases_of_overlapped_matmul():
    def cases(rng):
        for num_devices, (m, k, n), scale, axis in (
            (1, (3, 2, 4), 1, "i"),
            (2, (1, 3, 1), 1000, "i"),
            (3, (5, 1, 70), 0.01, "i"),
            (3, (5, 1, 70), 0.01, "model"),
            (6, (2, 7, 3), 1, "i"),
        ):
            x = np.float32(rng.normal(size=(num_devices, m, num_devices * k)) * scale)
            w = np.float32(rng.normal(size=(num_devices, k, n)) + 1)
            yield Case(x, w, axis, axis=axis)

    expect_like_solution(
        overlapped_matmul,
        cases,
        value="same product",
        put_in="number of sends",
        free={
            "error": "it raises none",
            "layout": "of a row per device",
            "collectives": "whole pieces, or parts of them: counted",
            "arrays": "below",
            "compiles": "nothing is said",
            "arguments": "traced",
        },
    )
    rng = np.random.default_rng(13)
    # All products together are more numbers than W, and W more than x thrice.
    x, w = (np.float32(rng.normal(size=(5, *size))) for size in ((3, 10), (2, 11)))
    seen = observe(first_row, x, w, "i", axis="i", traced=True)
    with statement("number of sends"):
        expect_pieces(seen, w)
    with statement("no full copy of W"):
        expect_arrays(seen, largest=w.size - 1)
    tall = np.float32(rng.normal(size=(5, 60, 10)))  # its parts are larger than W
    seen = observe(overlapped_matmul, tall, w, "i", axis="i", traced=True)
    with statement("sends wait for no product"):
        expect_free_sends(seen)
    with statement("no full copy of W"):
        for shape in ((10, 11), (5, 2, 11)):
            expect_arrays(seen, never=shape)
    # Of one column: choosing by a product takes more than the product itself.
    for width, at_most in ((9, 1.1), (1, 2)):
        sizes = (24, 75), (25, width)
        x, w = (np.float32(rng.normal(size=(3, *size))) for size in sizes)
        seen = observe(overlapped_matmul, x, w, "i", axis="i", compiled=True)
        with statement("no extra arithmetic"):
            expect_flops(seen, x, w, at_most)
    x, w = (np.float32(rng.normal(size=(2, *size))) for size in ((3, 4), (2, 5)))
    seen = observe(overlapped_matmul, x, w, "i", axis="i", traced=True)
    with statement("number of sends"):
        expect_pieces(seen, w)
