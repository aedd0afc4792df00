"""Checks of lesson 4: where arrays lie, and what compiled programs send."""

from __future__ import annotations

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.checks import demo, hidden, visible
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
    data_parallel_step,
    explicit_mlp,
    fsdp_step,
    init_sharded,
    logical_to_spec,
    make_adam,
    make_mesh,
    make_mesh_and_place,
    make_state,
    mlp_case,
    mlp_loss,
    overlapped_matmul,
    param_specs,
    predict_layout,
    rows_to_hide,
    sharded_matmul,
    state_shardings,
    step_bound,
    tensor_parallel_mlp,
    timeline,
    weight_specs,
)
from coursekit.observe import observe
from coursekit.outcomes import statement
from coursekit.reference_checks import expect_like_solution
from coursekit.references import reference_adamw, reference_relu_layers, reference_sgd
from coursekit.traced_program import A_SEND, OWN_SEND
from coursekit.tracing import num_donated

RULES = {"arguments": "arguments stay", "memory": "nothing is remembered"}


@visible(
    "make_mesh_and_place",
    points=1,
    essential=["first devices", "same numbers"],
    others=["mistakes raise", "arguments stay", "nothing is remembered"],
)
def examples_of_make_mesh_and_place():
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    for shape, names, spec in (
        ((4, 2), ("data", "model"), ("data", "model")),
        ((2, 4), ("rows", "columns"), ("columns", "rows")),
        ((4, 2), ("data", "model"), (None, ("model", "data"))),
        ((2, 2), ("data", "model"), (None, "model")),
    ):
        other_order = [n[::-1] if isinstance(n, tuple) else n for n in spec]
        causes = {
            "the spec was not used: x is replicated on every device": (),
            "the first entry of spec belongs to the array's first axis": spec[::-1],
            "in a tuple of names, the first one cuts first": other_order,
        }
        seen = observe(make_mesh_and_place, x, shape, names, spec)
        with statement("same numbers"):
            expect_close(seen, x)
        with statement("first devices"):
            expect_layout(seen, {"x": ("", spec)}, shape, names, mistakes=causes)
    for shape, spec in (((3, 5), ("data",)), ((4, 2), ("data", "rows"))):
        mistaken = observe(make_mesh_and_place, x, shape, names, spec)
        with statement("mistakes raise"):
            expect_error(mistaken, "ValueError")


@hidden("make_mesh_and_place")
def cases_of_make_mesh_and_place():
    def cases(rng):
        for shape, mesh_shape, names, spec, dtype in (
            ((), (8,), ("i",), (), "float32"),
            ((1,), (1,), ("x",), ("x",), "bool"),
            ((3, 7), (1, 1), ("a", "b"), (("b", "a"),), "int32"),
            ((6,), (2,), ("i",), ("i",), "uint8"),
            ((6,), (3,), ("i",), ("i",), "float16"),
            ((12, 5), (6,), ("batch",), ("batch",), "float32"),
            ((5, 12), (1, 4), ("p", "q"), (None, ("q", "p")), "int8"),
            ((5, 12), (2, 3), ("p", "q"), (None, ("q", "p")), "float32"),
            ((12, 5), (2, 3), ("p", "q"), (("p", "q"),), "float32"),
            ((12, 6), (3, 2), ("p", "q"), ("q", ("p",)), "int32"),
            ((16, 3), (2, 2, 2), ("a", "b", "c"), (("c", "a"),), "float32"),
            ((8, 1, 9), (2, 2, 2), ("a", "b", "c"), (("b", "c", "a"),), "float32"),
            ((4, 2, 6), (2, 2, 2), ("c", "b", "a"), ("a", "b", "c"), "bool"),
            ((2, 3, 4, 2), (2, 4), ("z", "y"), (None, None, "y", "z"), "float32"),
            ((1, 2, 1, 3, 4, 2), (2, 4), ("z", "y"), (*[None] * 4, "y", "z"), "int32"),
        ):
            x = (rng.normal(size=shape) * 1e3).astype(dtype)
            yield Case(x, mesh_shape, names, spec, rtol=0.0)
        for array in (jnp.arange(12.0), jnp.arange(12.0) - 7):
            yield Case(array, (4,), ("i",), ("i",), rtol=0.0)
        yield Case(jnp.arange(12.0), (4,), ("i",), (), rtol=0.0)
        yield Case(jnp.arange(16.0), (8,), ("i",), ("i",), rtol=0.0)
        yield Case(jnp.ones((4, 2)), (2, 4), ("i", "j"), (), rtol=0.0)
        x = np.ones((8, 8, 8), np.float32)
        for shape in ((9,), (2, 5), (3, 3, 7)):
            yield Case(x, shape, ("a", "b", "c")[: len(shape)], ())
        yield Case(x, (2, 4), ("a", "b"), (None, "pipe"))
        yield Case(x, (2, 4), ("data", "model"), ("data", None, ("model", "seq")))

    expect_like_solution(
        make_mesh_and_place,
        cases,
        value="same numbers",
        error="mistakes raise",
        layout="first devices",
        **RULES,
        free={"collectives sent arrays compiles": "it may be placed in any way"},
    )


@demo("make_mesh_and_place")
def demo_of_make_mesh_and_place():
    from coursekit.draw import draw_array

    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    for spec in (("data", "model"), (("model", "data"),)):
        placed = make_mesh_and_place(x, (4, 2), ("data", "model"), spec)
        draw_array(placed, f"placed by your function, {spec}:")


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
    for shape, spec in (((6, 4), (("data", "model"),)), ((8, 8), ("rows",))):
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


@demo("predict_layout")
def demo_of_predict_layout():
    mesh_shape = {"data": 8, "model": 8}
    print("An MLP weight of Llama 3 70B in bfloat16, (8192, 28672), on 64 devices:")
    for spec in ((), ("data",), (None, "model"), ("data", "model")):
        block, count = predict_layout((8192, 28672), mesh_shape, spec)
        size = 2 * math.prod(block) / 1e6
        text = f"P({', '.join(map(repr, spec))})"
        print(f"  {text:<19}{size:6.1f} MB on each, {count:2} different blocks")


def placed_on(num_devices, params, x, y):
    mesh = make_mesh((num_devices,), ("data",))
    params = jax.device_put(params, NamedSharding(mesh, P()))
    return params, *jax.device_put((x, y), NamedSharding(mesh, P("data")))


def data_parallel_run(params, x, y, rates, num_devices):
    params, x, y = placed_on(num_devices, params, x, y)
    losses = []
    for lr in map(float, rates):
        params, loss = data_parallel_step(params, x, y, lr)
        losses.append(loss)
    return {"params": params, "losses": losses}


def arguments_after(params, x, y, lr, num_devices):  # a step: alive or deleted
    inputs = placed_on(num_devices, params, x, y)
    data_parallel_step(*inputs, lr)
    words = {True: "deleted", False: "alive"}
    return jax.tree.map(lambda leaf: words[leaf.is_deleted()], inputs)


def reference_run(params, x, y, lr, num_steps):  # what data_parallel_run returns
    params, losses = reference_sgd(params, x, y, lr, num_steps, reference_relu_layers)
    return {"params": params, "losses": losses}


@visible(
    "data_parallel_step",
    points=2,
    essential=["same step", "one all-reduce"],
    others=[
        "replicated result",
        "no recompilation",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_data_parallel_step():
    params, x, y = mlp_case(1, 32, 6, 24)
    expected, large = (reference_run(params, x, y, lr, 1) for lr in (0.05, 0.4))
    later = reference_run(params, x, y, 0.05, 2)["losses"][1:]
    own = reference_run(params, x[:4], y[:4], 0.05, 1)["params"]
    causes = {
        "the gradient is 8 times too large: it was summed over devices": large,
        "each device learned from its own rows only": expected | {"params": own},
        "the loss is the one after the step": expected | {"losses": later},
    }
    seen = observe(data_parallel_run, params, x, y, [0.05], 8, compiled=True)
    with statement("same step"):
        expect_close(seen, expected, rtol=1e-4, atol=1e-5, mistakes=causes)
    with statement("no recompilation"):
        expect_traced(seen)
        names = [name for name, _ in seen.steps]
        expect(seen, names == ["func.call"], "The step is not one compiled program.")
    with statement("replicated result"):
        expect_layout(seen, {"w1": ('["params"]["w1"]', ())}, (8,), ("data",))
    all_rows = "every device computes all rows"
    once = 7 / 4 * (4 + sum(leaf.nbytes for leaf in params.values()))  # one all-reduce
    with statement("one all-reduce"):
        causes = {all_rows: lambda seen: (32, 24) in seen.array_shapes}
        expect_arrays(seen, never=(32, 24), causes=causes)
        expect_moved(seen, at_least=once, at_most=once)
    other = observe(data_parallel_run, params, y, x, [0.01, 0.02], 8)
    with statement("no recompilation"):
        expect(other, not other.num_compiles, "Another learning rate compiles anew.")


@hidden("data_parallel_step")
def cases_of_data_parallel_step():
    def program_cases(rng):
        for num_devices, sizes in (
            (2, (2, 1, 1, 2)),
            (3, (9, 2, 7, 1)),
            (8, (6144, 3, 5, 2)),  # no piece of it is enough
        ):
            inputs = mlp_case(int(rng.integers(10**6)), *sizes)
            yield Case(*inputs, [float(rng.uniform(0.01, 0.3))], num_devices)

    def run_cases(rng):
        for num_devices, sizes in (
            (3, (9, 2, 7, 1)),
            (6, (18, 5, 3, 3)),
            (2, (18, 5, 3, 3)),
        ):
            for size in (1, 2)[: num_devices - 1]:
                params, x, y = mlp_case(int(rng.integers(10**6)), *sizes)
                rates = np.full(2, rng.uniform(0.01, 0.3), np.float32)  # the same twice
                rates *= num_devices  # up to 1.8
                yield Case(params, size * x, y - size, rates, num_devices)

    def alive_cases(rng):
        yield Case(*mlp_case(0, 9, 2, 7, 1), 0.1, 3)

    same = {
        "layout": "replicated result",
        "arguments": "arguments stay",
    }
    unsaid = {"error": "it raises none", "collectives": "the compiler merges them"}
    expect_like_solution(
        data_parallel_run,
        program_cases,
        compiled=True,
        scales=(),  # other numbers make no other program; their values: below
        value="same step",
        sent="one all-reduce",
        **same,
        free=unsaid | {"arrays": "of no size", "compiles": "below"},
    )
    expect_like_solution(
        data_parallel_run,
        run_cases,
        one_by_one=-1,
        value="same step",
        memory="nothing is remembered",
        compiles="no recompilation",
        **same,
        free=unsaid | {"sent arrays": "above"},
    )
    expect_like_solution(
        arguments_after,
        alive_cases,
        value="arguments stay",
        free=unsaid | {"layout sent arrays compiles arguments": "of plain values"},
    )


@demo("data_parallel_step")
def demo_of_data_parallel_step():
    from coursekit.draw import draw_losses

    params, x, y = mlp_case(0, 64, 16, 32)
    alone = reference_run(params, x, y, 0.3, 50)["losses"]
    found = data_parallel_run(params, x, y, [0.3] * 50, 8)
    own = list(map(float, found["losses"]))
    print(f"After 50 steps: one device {alone[-1]:.2f}, your eight {own[-1]:.2f}.")
    curves = {"one device, in NumPy": alone, "your step, 8 devices": own}
    draw_losses(curves, title="Your step trains on eight devices")


def reference_mlp(params, x):
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        x = np.maximum(np.float64(x) @ w1, 0) @ w2
    return x


# Of 24 rows and 48 hidden units on (2, 4) devices; a device's own are (12, 12).
UNCUT = {
    "a device computes all hidden units of its rows": lambda s: (
        (12, 48) in s.array_shapes
    )
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
        own = 24 // data, 48 // model
        with statement("own rows, own units"):
            for shape in {(own[0], 48), (24, own[1])} - {own}:
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


@demo("tensor_parallel_mlp")
def demo_of_tensor_parallel_mlp():
    from coursekit.draw import draw_array

    params, x, _ = mlp_case(0, 4, 4, 8, layers=1)
    params, y = tensor_parallel_run(params, x, (2, 4))
    draw_array(params["w1"][0], "w1 of a layer, column-parallel, by your function:")
    draw_array(params["w2"][0], "w2, row-parallel:")
    draw_array(y, "y:")


def plain_spec(spec):  # a list or a P is as good; a tuple of one axis is that axis
    if not isinstance(spec, list | tuple | P):
        return spec
    return tuple(
        entry[0] if isinstance(entry, list | tuple) and len(entry) == 1 else entry
        for entry in spec
    )


def expect_spec(seen, spec, causes):
    headline = f"The spec is {seen.value}, not {spec}."
    expect(seen, seen.value == spec, headline, causes=causes)


def spec_of(names, rules):
    return plain_spec(logical_to_spec(names, rules))


def specs_of(tree, rules):
    def is_spec(node):
        return isinstance(node, tuple | P)

    return jax.tree.map(plain_spec, param_specs(tree, rules), is_leaf=is_spec)


@visible(
    "logical_to_spec",
    points=2,
    essential=["one entry per axis", "first rule wins"],
    others=[
        "no rule, not sharded",
        "no mesh axis twice",
        "whole trees",
        "arguments stay",
        "nothing is remembered",
    ],
)
def examples_of_logical_to_spec():
    once = ("batch", ("pod", "data")), ("embed", "model")
    with statement("one entry per axis"):
        seen = observe(spec_of, ("batch", "embed"), once)
        expect_close(seen, (("pod", "data"), "model"))
    more = (("batch", "data"), ("embed", None), ("batch", "x"), ("embed", "y"))
    seen = observe(spec_of, ("batch", "embed"), more)
    with statement("first rule wins"):
        last = "the last rule with the name was taken"
        causes = {last: lambda seen: "x" in seen.value}
        passed_over = "a rule that says None was passed over"
        causes[passed_over] = lambda seen: "y" in seen.value
        expect_spec(seen, ("data", None), causes)
    two = (("batch", ("data", "model")), ("hidden", "model"), ("heads", "model"))
    with statement("no rule, not sharded"):
        seen = observe(spec_of, ("heads", None, "a"), two)
        expect_close(seen, ("model", None, None))
    with statement("no mesh axis twice"):
        in_tuple = "an axis in a tuple is used as well"
        causes = {in_tuple: lambda seen: ("data", "model") in seen.value}
        for names in (("hidden", "heads"), ("batch", "hidden"), ("hidden", "batch")):
            twice = observe(spec_of, names, two)
            expect_error(twice, "ValueError", causes=causes)
    with statement("whole trees"):
        for embed, units in ((None, "model"), ("data", None), ("data", "model")):
            tree = {"mlp": {"w2": ("layer", "hidden", "embed")}, "bias": [("embed",)]}
            specs = {"mlp": {"w2": (None, units, embed)}, "bias": [(embed,)]}
            seen = observe(specs_of, tree, (("hidden", units), ("embed", embed)))
            expect_close(seen, specs)
            headline = "A list became a tuple, or a tuple a list."
            expect(seen, seen.value == specs, headline)


@hidden("logical_to_spec")
def cases_of_logical_to_spec():
    rules = (("a", "xy"), ("b", "x"), ("ab", ("y", "z")), ("c", ("w",)))
    first, missing = "first rule wins", "no rule, not sharded"
    twice = "no mesh axis twice"

    def cases(rng):
        yield Case((), rules)
        yield Case(("a", "b"), rules, statements=twice)  # x is another axis than xy
        yield Case(("a", "b"), (("ab", "x"), ("ba", "w"), ("a", "y"), ("b", "z")))
        yield Case(("ab", "ba"), (("a", "x"), ("b", "w"), ("ab", "y"), ("ba", "z")))
        long = "".join(["em", "bed"])  # equal to a rule's name, another object
        cased = (("EMBED", "p"), ("embed", "q"), *rules)
        yield Case((long, "b"), cased)
        yield Case((long, "Embed", "b"), cased, statements=missing)
        yield Case(("a", "b"), (*rules, ("a", None)), statements=first)
        yield Case(("n", "n", "a"), (("n", None), *rules), statements=twice)
        yield Case(("a",), (("a", None), ("a", "x")), statements=first)
        yield Case(("a",), (("a", "x"), ("a", None)), statements=first)
        for _ in range(4):
            names = rng.permutation(list("stuvw")).tolist()
            axes = [None, "pod", ("data", "model"), ("stage",), "replica"]
            both = (
                *zip(names, axes, strict=True),
                *zip(names[::-1], axes, strict=True),
            )
            yield Case(tuple(sorted(names)), both, statements=first)
        yield Case(("a", "b"), (), statements=missing)
        for names in (("ab", None, "b", "a", "c", "abc"), ("e", "a", "e", None, None)):
            yield Case(names, rules, statements=missing)
        for names in (
            ("b", "b"),
            ("a", "c", "b", "a"),
            ("ab", None, "d"),
            ("e", "d", "c", "ab"),
            ("c", "f"),
            ("m",),
            ("k", "g"),
            ("g", "k"),
        ):
            more = (("d", "z"), ("f", ("w", "v")), ("g", ("p", "q", "r")), ("k", "r"))
            more += (("m", ("p", "p")),)
            yield Case(names, (*rules, *more), statements=twice)

    def tree_cases(rng):
        rules = (("a", None), ("a", "x"), ("b", ("x", "y")), ("c", "z"), ("d", "z"))
        yield Case(("a", "c"), rules)
        yield Case({}, rules)
        yield Case([("b",), ("b", "c"), ("c", "b")], rules)
        yield Case({"w": (None, "embed"), "b": ("embed",)}, (("embed", "x"),))
        yield Case({"w": ("b", None), "norm": {}, "scale": ()}, rules)
        yield Case({"w": (None, "b"), "b": (None,), "c": [(None, None, "a")]}, rules)
        nested = {"deep": [("a", "b"), [("c",), {"x": ("d", "e")}]]}
        deep = [nested, [], ("e", None, "c")]
        yield Case({"layers": [deep, {"0": deep}], "b": ("b",)}, rules)
        yield Case(deep, (("c", ("p", "q")), ("b", "p"), ("e", "q")))
        for bad in (("c", "d"), ("e", "b")):
            wrong = {"fine": ("c",), "layers": [("c", "b"), {"w": bad}]}
            yield Case(wrong, (("e", "y"), *rules[2:]))

    no_arrays = {"layout collectives sent arrays compiles": "there are no arrays"}
    expect_like_solution(
        spec_of,
        cases,
        value="one entry per axis",
        error=twice,
        **RULES,
        free=no_arrays,
    )
    expect_like_solution(
        specs_of,
        tree_cases,
        value="whole trees",
        error=twice,
        arguments="arguments stay",
        free=no_arrays,
    )


@demo("logical_to_spec")
def demo_of_logical_to_spec():
    tree = {"w1": ("layer", "embed", "hidden"), "w2": ("layer", "hidden", "embed")}
    print("The same two parameters by three tables of rules, by your function:")
    for layout, rules in {
        "data parallel": [("batch", "data")],
        "tensor parallel": [("batch", "data"), ("hidden", "model")],
        "FSDP": [("embed", ("data", "model"))],
    }.items():
        specs = specs_of(tree, rules)
        print(f"  {layout:<16}w1 {specs['w1']}, w2 {specs['w2']}")


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
            (("i", "j"), (None, None, "i"), (None, "j", None)),
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
    seen = observe(init_from_reversed, key, 3, 16, *INIT_MESH, INIT_SPECS)
    with statement("sharded as asked"):
        expect_layout(seen, state_layout(INIT_SPECS), *INIT_MESH)


def bytes_of_first(state):  # on device 0, by part: for draw_memory
    def held(tree):
        shards = [s for a in jax.tree.leaves(tree) for s in a.addressable_shards]
        return sum(s.data.nbytes for s in shards if s.device == jax.devices()[0])

    return {"parameters": held(state["params"]), "Adam": held(state["adam"])}


@demo("init_sharded")
def demo_of_init_sharded():
    from coursekit.draw import draw_memory

    replicated, bars = dict.fromkeys(INIT_SPECS, ()), {}
    for name, specs in {"replicated": replicated, "in place": INIT_SPECS}.items():
        state = init_sharded(jax.random.key(0), 4, 256, *INIT_MESH, specs)
        bars[name] = bytes_of_first(state)
    draw_memory(bars, "Device 0 after your init_sharded: four layers, W = 256")


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
    expected = f"its part of one layer's weights, {most} numbers"
    expect(seen, math.prod(largest) <= most, headline, expected=expected)
    found = sum(one.bytes_moved for one in gathers)
    part = (num_devices - 1) / num_devices  # of an array, which a ring sends
    once = part * sum(leaf.nbytes for leaf in params.values())
    kept = "gathered weights are kept for the backward pass"
    rows = {"causes": {kept: lambda _: math.isclose(found, once)}}
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
    split, whole = weight_specs("data", None), weight_specs(None, None)
    one = observe(fsdp_run, params, x, y, split, 1, 8, compiled=True)
    four = observe(fsdp_run, params, x, y, split, 4, 8)
    expected, causes = reference_fsdp(params, x, y, 4)
    with statement("same numbers"):
        expect_close(four, expected, rtol=1e-3, atol=1e-5, mistakes=causes)
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
    with statement("own rows"):
        expect_arrays(one, never=(32, 40))
    with statement("layer by layer"):
        expect_gathers(one, params, 8)


@hidden("fsdp_step")
def cases_of_fsdp_step():
    split, other = weight_specs("data", None), weight_specs(None, "data")
    whole = weight_specs(None, None)

    def cases(rng):
        for num_devices, sizes, *specs in (
            (2, (4, 2, 2, 1), whole, split, 7),
            (3, (9, 3, 6, 2), other),
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


def trained(step, state, x, y, num_steps):
    losses = []
    for _ in range(num_steps):
        state, loss = step(state, x, y)
        losses.append(float(loss))
    return state, losses


@demo("fsdp_step")
def demo_of_fsdp_step():
    from coursekit.draw import draw_losses, draw_memory

    params, x, y = mlp_case(0, 64, 256, 256, layers=3)
    state = {"params": params, "adam": make_adam().init(params)}
    on_one = jax.device_put(state, jax.devices()[0])
    mesh = make_mesh((8,), ("data",))
    shardings = state_shardings(mesh, state, weight_specs("data", None))
    rows = jax.device_put((x, y), NamedSharding(mesh, P("data")))
    placed = jax.device_put(state, shardings)

    @jax.jit
    def alone(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = jax.tree.map(jnp.add, state["params"], updates)
        return {"params": params, "adam": adam}, loss

    on_one, expected = trained(alone, on_one, x, y, 30)
    placed, losses = trained(fsdp_step(shardings), placed, *rows, 30)
    bars = {"one device": bytes_of_first(on_one), "your FSDP": bytes_of_first(placed)}
    draw_memory(bars, "The state on device 0")
    print(f"After 30 steps: one device {expected[-1]:.2f}, yours {losses[-1]:.2f}.")
    curves = {"one device": expected, "your fsdp_step, 8 devices": losses}
    draw_losses(curves, title="Your FSDP training, on top of one device's")


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
        with statement("output by rows"):
            expect_layout(seen, {"y": ("", ("data",))}, *grid, mistakes=causes)
        with statement("own rows, own units"):
            for shape in ((12, 48), (24, 12)):
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

    unsaid = {"error": "it raises none", "compiles": "nothing is said"}
    unsaid["collectives"] = "in a loop or not; of one device or not at all"
    expect_like_solution(
        explicit_run,
        cases,
        one_by_one=-1,
        layout="output by rows",
        value="same numbers",
        **RULES,
        free=unsaid | {"arrays sent": "below"},
    )
    expect_like_solution(
        explicit_run,
        program_cases,
        compiled=True,
        scales=(),  # other numbers make no other program; their values: above
        value="same numbers",
        layout="output by rows",
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


@demo("explicit_mlp")
def demo_of_explicit_mlp():
    params, x, _ = mlp_case(9, 24, 8, 48)
    print("What arrives in your function, and what it returns:")
    for spec in ((), ("data",), (("data", "model"),)):
        kinds = []

        def run(params, x, kinds=kinds):
            y = explicit_mlp(params, x)
            kinds.extend((jax.typeof(x), jax.typeof(y)))
            return y

        on_explicit_axes(run, params, x, (2, 4), spec)
        print(f"  x: {kinds[0]!s:<28}y: {kinds[1]}")


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
        causes = {"replicated on every device": ()}
        where = {"the result": ("", ("i",))}
        with statement("rows come out"):
            expect_layout(seen, where, (count,), ("i",), mistakes=causes)
        with statement("one reduce-scatter"):
            expect_collectives(seen, {"reduce-scatter": 1})
        with statement("own part of K"):
            expect_arrays(seen, never=(16, 24))


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


@demo("sharded_matmul")
def demo_of_sharded_matmul():
    from coursekit.draw import draw_array

    a, b = np.ones((16, 8), np.float32), np.ones((8, 4), np.float32)
    draw_array(sharded_matmul(a, b, 8), "a @ b by your function:")
    a, b = np.ones((512, 512), np.float32), np.ones((512, 512), np.float32)
    seen = observe(sharded_matmul, a, b, 8, compiled=True)
    sent = sum(one.bytes_moved for one in seen.collectives) / 2**10
    both = 2 * 7 / 8 * a.nbytes / 2**10
    print(f"For a result of 1 MiB each device sends {sent:.0f} KiB;")
    print(f"an all-reduce would send {both:.0f}.")


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
        expect_arrays(seen, largest=w[:3].size - 1)  # two pieces at a time are fine
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


@demo("overlapped_matmul")
def demo_of_overlapped_matmul():
    from coursekit.draw import draw_timeline

    x, w = np.ones((8, 4, 64), np.float32), np.ones((8, 8, 16), np.float32)
    seen = observe(overlapped_matmul, x, w, "i", axis="i", traced=True)
    sent = sum(one.bytes_moved for one in seen.collectives)
    count = round(sent / w[0].nbytes)
    print(f"Your function sends {count} pieces of 8; on eight H100s, with 2,048 rows")
    print("and W = H = 4096 in bfloat16, the scheduler can overlap them like this:")
    starts, send, product = timeline(2048)
    link = [(p * send, send, f"{p + 1}") for p in range(count)]
    products = [(start, product, f"{p}") for p, start in enumerate(starts)]
    bars = {"link": link, "products": products}
    draw_timeline(bars, "microseconds", "Your overlapped_matmul: device 0")


CHIP = {"compute": 1e14, "memory": 2e12, "communication": 8e10}
PARTS = "compute", "memory", "communication"


def seconds_of(*arguments):
    return step_bound(*arguments)[0]


def bound_of(times):  # with speeds of 1, amounts are seconds
    return step_bound(*times, dict.fromkeys(reversed(PARTS), 1))[1]


@visible(
    "step_bound",
    points=2,
    bonus=True,
    essential=["time of each part", "the bottleneck"],
    others=["fewest rows", "arguments stay", "nothing is remembered"],
)
def examples_of_step_bound():
    seconds = dict(zip(PARTS, (3.0, 5.0, 4.0), strict=True))
    amounts = [time * CHIP[part] for part, time in seconds.items()]
    inverse = {part: 1 / time for part, time in seconds.items()}
    causes = {"seconds are an amount divided by a speed": inverse}
    seen = observe(seconds_of, *amounts, CHIP)
    with statement("time of each part"):
        expect_close(seen, seconds, mistakes=causes)
    seen = observe(step_bound, *amounts, CHIP)
    with statement("the bottleneck"):
        expect_close(seen, (seconds, "memory"))
        for times, bound in (((3, 1, 2), 0), ((1, 3, 2), 1), ((1, 2, 3), 2)):
            expect_close(observe(bound_of, times), PARTS[bound])
    down, own = "the rows were rounded down", "a device does not send its own part"
    once, back = "an all-reduce sends twice", "weights are gathered backward, too"
    for layout, num_devices, fewest, causes in (
        ("data parallel", 8, 1459, {down: 1458, once: 730, own: 1667}),
        ("data parallel", 2, 834, {"the devices are not always 8": 1459}),
        ("FSDP", 8, 2188, {back: 1459, "gradients are not all-reduced": 2917}),
        ("FSDP", 1, 1, {"one row is the least": 0}),
    ):
        how = 8 * 2**20, 12 * 2**20, num_devices, layout, CHIP
        seen = observe(rows_to_hide, *how)
        with statement("fewest rows"):
            expect_close(seen, fewest, mistakes=causes)


@hidden("step_bound")
def cases_of_step_bound():
    def cases(rng):
        chip = {"memory": 0.5, "communication": 3.0, "compute": 7.0}
        yield Case(14, 3, 2, chip)
        yield Case(0, 0.125, 0, chip)
        for amounts in ((7, 0.5, 3), (2**40, 2**41, 0), (0, 2**40, 2**41)):
            yield Case(*amounts, {part: 1.0 for part in chip})
        yield Case(10**18, 10**12, 10**9, {part: 1e12 for part in chip})
        for _ in range(4):
            speeds = dict(zip(chip, rng.uniform(1, 1e3, 3).tolist(), strict=True))
            yield Case(*rng.integers(1, 1000, 3).tolist(), speeds)

    def row_cases(rng):
        chip = {"communication": 2**20, "memory": 1, "compute": 2**40}
        for layout in ("data parallel", "FSDP"):
            yield Case(2**20, 2**30, 2, layout, chip)  # a whole number by itself
            yield Case(2**20 + 1, 2**30, 2, layout, chip)
            yield Case(2**20, 2**40, 2, layout, chip)  # of the gradients, a single row
            yield Case(10**6, 10**15, 7, layout, chip)  # a part of a row
            yield Case(10**7, 3333, 3, layout, chip)
            yield Case(777.25, 5.5e7, 1000, layout, CHIP)
            yield Case(10**9, 1, 1, layout, chip)

    plain_numbers = {"layout collectives sent arrays compiles": "there are no arrays"}
    plain_numbers["error"] = "it raises none"
    expect_like_solution(
        step_bound,
        cases,
        value={"[0]": "time of each part", "[1]": "the bottleneck"},
        **RULES,
        free=plain_numbers,
        scales=(),  # speeds are above 0
    )
    expect_like_solution(
        rows_to_hide,
        row_cases,
        value="fewest rows",
        arguments="arguments stay",
        free=plain_numbers,
        scales=(),  # speeds are above 0
    )


@demo("step_bound")
def demo_of_step_bound():
    h100 = {"compute": 989e12, "memory": 3.35e12, "communication": 450e9}
    v5p = {"compute": 459e12, "memory": 2.765e12, "communication": 600e9}
    print("Tokens per device that hide the communication of 8 billion parameters")
    print("in bfloat16 on 8 devices, by your function:")
    for name, chip in {
        "H100, NVLink": h100,
        "H100, network of 50 GB/s": h100 | {"communication": 50e9},
        "TPU v5p, all links": v5p,
    }.items():
        how = 16 * 10**9, 48 * 10**9, 8
        rows = [rows_to_hide(*how, one, chip) for one in ("data parallel", "FSDP")]
        print(f"  {name:<26}data parallel {rows[0]:6}, FSDP {rows[1]:6}")
