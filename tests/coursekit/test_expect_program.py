"""Each expectation of a program passes on what it asks for and tells the rest apart."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from observations import ROWS, X, on_devices, problem, returned, stub

from coursekit.expect_program import (
    expect_arrays,
    expect_collectives,
    expect_devices,
    expect_dtypes,
    expect_kept_program,
    expect_layout,
    expect_moved,
    expect_one_sync,
    expect_replicas,
    expect_traced,
)
from coursekit.observation import Collective, Failure, Observation, Shard
from coursekit.observe import observe
from coursekit.outcomes import NotAttempted, Raised

SUM = Collective("all-reduce", "add", "f32", (2,), 8)  # moves 14 bytes
GATHER = Collective("all-gather", "", "f32", (2,), 8)  # 56 bytes
RINGS = Collective("collective-permute", "", "f32", (2,), 8, True, 7)  # 56 bytes
SOME = Collective("all-reduce", "max", "f32", (2,), 8, True, None)


def shown(cause):
    return {"another": lambda seen: False, cause: lambda seen: True}


def running(*collectives):
    return returned(X, collectives=collectives, array_shapes=((2,), (8, 2)))


EVERY = [
    functools.partial(expect_devices, num_devices=8),
    expect_arrays,
    functools.partial(expect_collectives, counts={}),
    expect_moved,
    expect_replicas,
    expect_kept_program,
    expect_traced,
    functools.partial(expect_layout, where={}, mesh_shape=(8,), axis_names=("i",)),
    functools.partial(expect_one_sync, params={}, num_devices=8),
]


@pytest.mark.parametrize("function", EVERY)
def test_a_stub_was_not_attempted(function):
    error = problem(function, observe(stub), kind=NotAttempted)
    assert error.headline == "stub still holds its stub."


@pytest.mark.parametrize("function", EVERY)
def test_an_error_where_a_result_was_asked_for_is_shown(function):
    kinds = "TypeError", "Exception", "BaseException"
    failure = Failure(kinds, "bad", "step", ("in step, line 3: x + 'a'",))
    error = problem(function, Observation("f", "f(x)", error=failure), kind=Raised)
    assert error.headline == "TypeError: bad"
    assert error.rows["where"] == "in step, line 3: x + 'a'"


# Devices and replicas.


def test_one_row_per_device_passes():
    expect_devices(on_devices(ROWS), 8)
    expect_devices(on_devices(ROWS[:4], X[:4]), 4)


def test_one_number_per_device_passes():
    expect_devices(on_devices([Shard(d, ((d, d + 1),)) for d in range(8)], X[:, 0]), 8)


def test_the_order_of_the_devices_is_free():
    backwards = [Shard(d, ROWS[7 - d].index) for d in range(8)]
    expect_devices(on_devices(backwards), 8)


@pytest.mark.parametrize(
    ("pieces", "headline", "seen"),
    [
        ([], "The result is on no device.", "f32[8,2] on the host"),
        (
            [Shard(0, ((0, 8), (0, 2)))],
            "The result lives on 1 device, not on 8.",
            "f32[8,2] on 1 device",
        ),
        (
            [Shard(d, ((2 * d, 2 * d + 2), (0, 2))) for d in range(4)],
            "The result lives on 4 devices, not on 8.",
            "f32[8,2] on 4 devices",
        ),
        (
            [Shard(d, ((0, 8), (0, 2))) for d in range(8)],
            "The result is not split along its leading axis.",
            "device 0 holds rows 0 to 7",
        ),
        (
            [Shard(d, ((2 * (d // 2), 2 * (d // 2) + 2), (0, 2))) for d in range(8)],
            "The result is not split along its leading axis.",
            "device 0 holds rows 0 to 1",
        ),
    ],
    ids=["host", "one device", "four devices", "replicated", "wrong split"],
)
def test_each_other_layout_has_its_own_words(pieces, headline, seen):
    error = problem(expect_devices, on_devices(pieces), 8)
    assert error.headline == headline
    assert error.rows["seen"] == seen
    assert error.rows["expected"] == ("8 devices with one row of the leading axis each")
    shape, found, wanted = error.layouts
    assert (shape, found) == ((8, 2), tuple((p.device, p.index) for p in pieces))
    assert wanted == tuple((shard.device, shard.index) for shard in ROWS)


def test_the_checks_likely_cause_is_shown():
    pieces = [Shard(0, ((0, 8), (0, 2)))]
    error = problem(expect_devices, on_devices(pieces), 8, causes=shown("no pmap"))
    assert error.rows["likely"] == "no pmap"


def test_every_array_of_the_result_is_looked_at():
    seen = returned({"b": X, "w": X}, layout={'["b"]': ROWS})
    error = problem(expect_devices, seen, 8)
    assert error.headline == 'result["w"] is on no device.'


MESH = (4, 2), ("i", "j")


def placed(spec, mesh=MESH, order=range(8)):
    devices = np.array(jax.devices())[list(order)]
    mesh = Mesh(devices.reshape(mesh[0]), mesh[1])
    return jax.device_put(X, NamedSharding(mesh, PartitionSpec(*spec)))


@pytest.mark.parametrize("spec", [("i",), (("j", "i"), None), ("i", "j"), (None, "j")])
def test_an_array_on_the_mesh_by_its_spec_passes(spec):
    seen = observe(lambda: {"w": [placed(spec)]})
    expect_layout(seen, {"w": ('["w"][0]', spec)}, *MESH)


def test_another_layout_is_told_by_its_first_device():
    seen = observe(placed, ("i",))
    error = problem(
        expect_layout, seen, {"w": ("", ("j", None))}, *MESH, causes=shown("why")
    )
    assert error.headline == "Device 0 holds [0:2, 0:2] of w."
    assert error.rows["expected"] == "[0:4, 0:2]"
    assert error.rows["likely"] == "why"
    shape, found, wanted = error.layouts  # of which a card draws pictures
    assert shape == (8, 2)
    assert found[2] == (2, ((2, 4), (0, 2)))
    assert wanted[2] == (2, ((0, 4), (0, 2)))
    assert len(found) == len(wanted) == 8


def test_the_cause_that_leads_to_a_layout_is_shown():
    seen, causes = observe(placed, ("j",)), {"swapped": ("j",), "whole": ()}
    error = problem(expect_layout, seen, {"w": ("", ("i",))}, *MESH, mistakes=causes)
    assert error.rows["likely"] == "swapped"


def test_other_devices_than_the_first_are_told():
    where, mesh = {"w": ("", ("i",))}, ((4,), ("i",))
    seen = observe(placed, ("i",), mesh, (4, 5, 6, 7))
    error = problem(expect_layout, seen, where, *mesh)
    assert error.headline == "Device 0 holds nothing of w."
    seen = observe(placed, ("i",), mesh, (3, 2, 1, 0))
    error = problem(expect_layout, seen, where, *mesh)
    assert error.rows["likely"].startswith("the mesh takes the first devices")


def test_an_array_of_the_host_lies_nowhere():
    error = problem(expect_layout, observe(np.ones, 8), {"w": ("", ("i",))}, *MESH)
    assert error.headline == "Device 0 holds nothing of w."


@pytest.mark.parametrize(
    "value",
    [
        np.ones((8, 2), np.float32),
        np.full((8, 3), np.nan),
        np.ones((1, 2)),
        {"w": np.zeros((8, 2)), "b": [np.ones(8, bool)]},
        [jnp.ones((4, 2), jnp.bfloat16)],
        3.0,
    ],
    ids=["equal", "nan", "one row", "pytree", "half", "number"],
)
def test_rows_that_agree_are_replicas(value):
    expect_replicas(returned(value))


@pytest.mark.parametrize(
    ("value", "headline"),
    [
        (X, "All 8 devices hold a different result."),
        (X[:, :1] // 4, "8 devices hold 4 values of result."),
        ({"b": X * 0, "w": [X // 8]}, '8 devices hold 2 values of result["w"][0].'),
        (np.float32([0, -0.0]), "All 2 devices hold a different result."),
        (1 + np.float32([0, 1.2e-7]), "All 2 devices hold"),
    ],
    ids=["each", "some", "one leaf", "sign of zero", "rounding"],
)
def test_rows_that_differ_in_a_bit_are_no_replicas(value, headline):
    error = problem(expect_replicas, returned(value), causes=shown("no pmean"))
    assert error.headline.startswith(headline)
    assert error.rows["expected"] == "replicas that agree bit for bit"
    assert error.rows["likely"] == "no pmean"


def test_a_sum_over_the_devices_makes_replicas_and_a_row_does_not():
    total = jax.pmap(lambda row: lax.psum(row, "i"), axis_name="i")
    expect_replicas(observe(total, X))
    problem(expect_replicas, observe(jax.pmap(jnp.sin), X))


# Arrays and collectives of the traced program.


def test_arrays_within_the_limits_pass():
    seen = returned(X, array_shapes=((), (4, 5), (20,)))
    expect_arrays(seen, largest=20)
    expect_arrays(seen, never=(5, 5))
    expect_arrays(returned(X, array_shapes=()), largest=0)


@pytest.mark.parametrize("shape", [(5, 4), (4, 1, 5), (20,), (1, 20)])
def test_a_shape_is_not_evaded_by_other_axes(shape):
    seen = returned(X, array_shapes=((), shape))
    error = problem(expect_arrays, seen, never=(4, 5))
    assert error.headline == f"The program builds an array of shape {list(shape)}."


def test_too_large_an_array_is_shown():
    seen = returned(X, array_shapes=((4, 5), (8, 4, 5)))
    error = problem(expect_arrays, seen, largest=20, causes=shown("This."))
    assert error.headline == "The program builds an array of shape [8, 4, 5]."
    assert error.rows == {
        "called": "f(f32[8,2])",
        "seen": "160 elements",
        "expected": "no array of more than 20 elements",
        "likely": "This.",
    }


def test_a_shape_that_must_not_occur_is_shown():
    seen = returned(X, array_shapes=((4, 5), (8, 4, 5)))
    error = problem(expect_arrays, seen, never=[8, 4, 5])
    assert error.headline == "The program builds an array of shape [8, 4, 5]."
    assert error.rows["expected"] == "a program without an array of this shape"


TRACING = [
    functools.partial(expect_arrays, largest=100),
    functools.partial(expect_collectives, never=["all-gather"]),
    functools.partial(expect_moved, at_most=100),
    expect_traced,
]


@pytest.mark.parametrize("function", TRACING)
def test_a_program_that_does_not_trace_says_so(function):
    seen = observe(lambda x: float(jnp.sum(x)), X, traced=True)
    error = problem(function, seen)
    assert error.headline == "JAX could not make a program of the function."
    assert error.rows["expected"] == "a program that traces"
    assert error.rows["seen"].startswith("ConcretizationTypeError")
    assert "no numbers yet" in error.rows["likely"]


def test_a_traced_program_gives_its_collectives():
    assert expect_traced(running()) == ()
    assert expect_traced(running(SUM, GATHER)) == (SUM, GATHER)


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        ([], {}),
        ([], {"counts": {}}),
        ([], {"counts": {"all-reduce": 0}}),
        ([SUM], {}),
        ([SUM], {"counts": {"all-reduce": 1}}),
        ([SUM, SUM, GATHER], {"counts": {"all-gather": 1, "all-reduce": 2}}),
        ([SUM], {"counts": {"all-reduce": 1, "all-gather": 0}}),
        ([RINGS], {"counts": {"collective-permute": 7}}),
        ([SOME], {"never": ["all-gather"]}),
        ([SUM, GATHER], {"in_loop": False}),
        ([RINGS], {"in_loop": True}),
    ],
)
def test_a_program_with_the_collectives_asked_for_passes(found, asked):
    expect_collectives(running(*found), **asked)


@pytest.mark.parametrize(
    ("found", "asked", "headline", "expected"),
    [
        (
            [],
            {"counts": {"all-reduce": 1}},
            "The program runs 0 x all-reduce, not 1.",
            "1 x all-reduce",
        ),
        (
            [SUM, SUM],
            {"counts": {"all-reduce": 1}},
            "The program runs 2 x all-reduce, not 1.",
            "1 x all-reduce",
        ),
        (
            [RINGS],
            {"counts": {"collective-permute": 1}},
            "The program runs 7 x collective-permute, not 1.",
            "1 x collective-permute",
        ),
        (
            [SUM, GATHER],
            {"counts": {"all-reduce": 1}},
            "The devices communicate: 1 x all-gather, none is needed.",
            "1 x all-reduce",
        ),
        (
            [SUM],
            {"counts": {}},
            "The devices communicate: 1 x all-reduce, none is needed.",
            "no collective",
        ),
        (
            [SUM],
            {"counts": {"all-reduce": 0}},
            "The devices communicate: 1 x all-reduce, none is needed.",
            "no collective",
        ),
        (
            [SUM, SOME],
            {"counts": {"all-reduce": 2}},
            "The program runs all-reduce an unknown number of times.",
            "2 x all-reduce",
        ),
        (
            [SOME],
            {"counts": {"all-gather": 3, "all-reduce": 2}},
            "The program runs 0 x all-gather, not 3.",
            "3 x all-gather, 2 x all-reduce",
        ),
        (
            [SUM, GATHER],
            {"never": ["all-gather"]},
            "The program runs all-gather, which it must not.",
            "no all-gather",
        ),
        (
            [RINGS],
            {"never": ["all-gather", "collective-permute"]},
            "The program runs collective-permute, which it must not.",
            "no collective-permute",
        ),
        (
            [SUM, RINGS],
            {"in_loop": False},
            "The collective-permute runs inside a loop.",
            "one after the loop",
        ),
        (
            [SOME],
            {"in_loop": False},
            "The all-reduce runs inside a loop.",
            "one after the loop",
        ),
    ],
)
def test_other_collectives_are_told(found, asked, headline, expected):
    error = problem(expect_collectives, running(*found), **asked, causes=shown("This."))
    assert error.headline == headline
    assert error.rows == {
        "called": "f(f32[8,2])",
        "seen": "; ".join(map(str, found)) or "no collective",
        "expected": expected,
        "likely": "This.",
    }


@pytest.mark.parametrize(
    ("found", "limits"),
    [
        ([], {}),
        ([], {"at_most": 0}),
        ([SUM], {"at_most": 14, "at_least": 14}),
        ([SUM, GATHER], {"at_most": 70}),
        ([RINGS], {"at_least": 56}),
    ],
)
def test_a_program_within_its_bytes_passes(found, limits):
    expect_moved(running(*found), **limits)


@pytest.mark.parametrize(
    ("found", "limits", "number", "expected"),
    [
        ([SUM, GATHER], {"at_most": 69}, "70", "at most 69 bytes"),
        ([RINGS], {"at_least": 57}, "56", "at least 57 bytes"),
        ([], {"at_least": 1}, "0", "at least 1 bytes"),
        ([SUM] * 1000, {"at_most": 1000}, "14,000", "at most 1,000 bytes"),
        ([SOME], {"at_most": 10**6}, "an unknown number of", "at most 1,000,000 bytes"),
        ([SOME], {"at_least": 1}, "an unknown number of", "at least 1 bytes"),
    ],
)
def test_other_bytes_are_told(found, limits, number, expected):
    error = problem(expect_moved, running(*found), **limits, causes=shown("This."))
    assert error.headline == f"Each device sends {number} bytes."
    assert error.rows["seen"] == ("; ".join(map(str, found)) or "no collective")
    assert error.rows["expected"] == expected
    assert error.rows["likely"] == "This."


def average_in_loop(rows):
    return lax.map(lambda row: lax.pmean(row, "i"), rows)


def step(grads, loss):
    return lax.pmean((grads, loss), "i")


def step_twice(grads, loss):
    return step(*step(grads, loss))


def test_one_sync_is_distinguished_from_two():
    grads, loss = {"w": np.ones((8, 50), np.float32)}, np.ones(8, np.float32)
    once = observe(step, grads, loss, axis="i", traced=True)
    twice = observe(step_twice, grads, loss, axis="i", traced=True)
    params = {"w": np.ones(50)}
    expect_one_sync(once, params, 8)
    expect_one_sync(twice, params, 8, 2)
    assert "714 bytes" in problem(expect_one_sync, twice, params, 8).headline
    problem(expect_one_sync, once, {"w": np.ones(49)}, 8)


def test_one_all_reduce_after_the_loop_is_told_from_one_in_it():
    data = np.ones((8, 5, 2), np.float32)
    seen = observe(average_in_loop, data, axis="i", traced=True)
    error = problem(expect_collectives, seen, {"all-reduce": 1}, in_loop=False)
    assert error.headline == "The program runs 5 x all-reduce, not 1."
    assert error.rows["seen"] == "5 x all-reduce (add) of f32[2], in a loop"

    seen = observe(lambda x: lax.pmean(x, "i"), data, axis="i", traced=True)
    expect_collectives(seen, {"all-reduce": 1}, in_loop=False)
    expect_moved(seen, at_most=70, at_least=70)


# Programs that are kept.


def inside(x):
    return jax.pmap(lambda row: lax.psum(row, "i"), axis_name="i")(x)


@functools.partial(jax.pmap, axis_name="i")
def decorated(row):
    return lax.psum(row, "i")


def plain_row(row):
    return 2 * row


def test_a_function_that_makes_a_new_program_each_time_is_told():
    observe(inside, X)
    error = problem(expect_kept_program, observe(inside, X))
    assert error.headline == "The call compiled 1 program again."
    assert error.rows["called"] == "inside(f32[8,2])"
    assert "an earlier call" in error.rows["expected"]
    assert "likely" not in error.rows


@pytest.mark.parametrize(
    "function",
    [decorated, lambda x: jax.pmap(plain_row)(x), lambda x: 2 * jnp.asarray(x)],
    ids=["decorated", "inside, of one function", "not mapped"],
)
def test_a_function_that_keeps_its_program_passes(function):
    observe(function, X)
    for options in ({}, {"traced": True}):
        expect_kept_program(observe(function, X, **options))


def test_another_shape_needs_another_program():
    observe(decorated, X)
    seen = observe(decorated, np.ones((8, 3, 3), np.float32))
    assert problem(expect_kept_program, seen).headline.startswith("The call compiled")


def test_several_programs_are_counted():
    error = problem(expect_kept_program, returned(X, num_compiles=3))
    assert error.headline == "The call compiled 3 programs again."


def test_a_program_in_the_dtypes_asked_for_passes():
    seen = returned(1, array_shapes=(), dtypes={"matmul": ("bf16",), "sum": ("f32",)})
    expect_dtypes(seen, matmul="bf16", sum="f32")


@pytest.mark.parametrize(
    ("found", "headline"),
    [
        (("f32",), "The program multiplies matrices in f32, not in bf16 alone."),
        (
            ("bf16", "f32"),
            "The program multiplies matrices in bf16 and f32, not in bf16 alone.",
        ),
        ((), "The program multiplies matrices nowhere."),
    ],
)
def test_other_dtypes_are_told(found, headline):
    seen = returned(1, array_shapes=(), dtypes={"matmul": found, "sum": ()})
    said = problem(expect_dtypes, seen, matmul="bf16", causes=shown("a cast too few"))
    assert said.headline == headline
    assert said.rows["expected"] == "bf16"
    assert said.rows["likely"] == "a cast too few"
