"""The judge asks about a function elsewhere and believes no more than it can check."""

import collections.abc
import contextlib
import copy
import functools
import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.expect import expect_close
from coursekit.expect_program import (
    expect_arrays,
    expect_collectives,
    expect_devices,
    expect_kept_program,
)
from coursekit.observation import Collective, Opaque, same
from coursekit.observe import observe
from coursekit.outcomes import NOT_WRITTEN, NotAttempted, Wrong
from grader.judging.judge import remembered
from grader.judging.observer import NoObservation, Observer, Remote
from grader.kernel.inside import responder
from grader.kernel.inside.wire import decode, encode, encode_observation

X = np.arange(16, dtype=np.float32).reshape(8, 2)
SQUARE = jax.pmap(lambda row: row * row)


@pytest.fixture
def process(monkeypatch):
    """Stands for a learner's process: `functions` are what its cells defined."""
    monkeypatch.setattr(responder.settings, "restore", lambda: None)

    def start(**functions):
        replies, asked = [], []

        def publish(data):
            replies.append(data[responder.REPLY_TYPE])

        shell = types.SimpleNamespace(
            user_ns=functions, display_pub=types.SimpleNamespace(publish=publish)
        )
        monkeypatch.setattr(responder, "get_ipython", lambda: shell)

        def ask(question):
            replies.clear()
            asked.append(json.dumps(question))
            responder.answer(asked[-1])
            return {"answer": replies[0]}

        return ask, asked

    return start


def answering(*replies, **fixed):
    """Makes an `ask` that gives prepared answers, under the right number."""
    left = list(replies)

    def ask(question):
        return {"answer": json.dumps({"id": question["id"], **left.pop(0), **fixed})}

    return ask


def no_observation(ask, *arguments, traced=False):
    with pytest.raises(NoObservation) as end:
        Observer(ask).observe(Remote("f"), *arguments, traced=traced)
    return end.value


def program_of(function, *arguments, template=None):
    """Exports a function honestly: the reply to the question for its program."""
    run = jax.jit(lambda *blocks: (function(*blocks),), keep_unused=True)
    text = jax.export.export(run, platforms=["cpu"])(*arguments).mlir_module()
    result = Opaque("leaf 0") if template is None else template
    return {"program": text, "result": encode(result)}


def call_of(function, *arguments, **changes):
    """Calls a function honestly: the reply to the question for its result."""
    facts = encode_observation(observe(function, *arguments)) | changes
    return {"seen": facts, "after": [encode(argument) for argument in arguments]}


def scale(x, factor, names=()):
    print("scaling", *names)
    return {"y": factor * x, "names": list(names)}


def change(x, factor):
    x[0] = factor


def fail(x):
    raise KeyError("no such row")


def stub(x):
    raise NotImplementedError(NOT_WRITTEN)


CALLS = {
    "values": (scale, X, 2, ("a", "b")),
    "devices": (SQUARE, X),
    "numbers of NumPy's": (scale, X, np.float32(0.5)),
    "arrays on a device": (scale, jnp.asarray(X), 2.0),
    "keys": (lambda key: jax.random.split(key, 3), jax.random.key(7)),
    "changed": (change, X, 3),
    "error": (fail, X),
    "stub": (stub, X),
    "nothing": (lambda: None,),
    "named": (lambda: [{1, 2}],),
}


@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS.keys())
def test_an_observation_from_afar_is_that_of_a_call_here(case, process, capsys):
    function, *arguments = case
    ask, _ = process(f=function)
    seen = Observer(ask).observe(Remote("f"), *arguments)
    here = observe(function, *arguments)
    assert (seen.function, seen.call[:2]) == ("f", "f(")
    assert same(seen.value, here.value)
    assert (seen.layout, seen.error) == (here.layout, here.error)
    assert (seen.printed, seen.changed) == (here.printed, here.changed)
    assert seen.array_shapes is None
    capsys.readouterr()


def test_a_question_says_whether_a_clean_process_is_to_answer(process):
    ask, asked = process(f=scale)
    for clean in (False, True):
        Observer(ask).observe(Remote("f"), X, 2, clean=clean)
    assert [json.loads(question)["clean"] for question in asked] == [False, True]


def mapped(x, key, n):
    noise = jax.pmap(lambda k: jax.random.normal(k, (2,)))(
        jax.random.split(key, len(x))
    )
    return {"a": [SQUARE(x), noise], "n": n}


TRACED = {
    "devices": (SQUARE, X),
    "tree": (mapped, X, jax.random.key(0), 3),
    "a number of NumPy's": (
        lambda x, s: jax.pmap(lambda r: r * s)(x),
        X,
        np.float32(2),
    ),
    "64 bits": (SQUARE, X.astype(np.float64)),
    "not mapped": (lambda x: jnp.sum(x, axis=0), X),
}


def data_parallel(w, x):
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    rows, whole = (NamedSharding(mesh, P(*spec)) for spec in (["data"], []))
    x = jax.device_put(x, rows)
    return jax.device_put(jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), whole)


def test_a_compiled_observation_from_afar_finds_the_same_collectives(process):
    ask, _ = process(f=data_parallel)
    w = np.ones((2, 4), np.float32)
    seen = Observer(ask).observe(Remote("f"), w, X, compiled=True)
    here = observe(data_parallel, w, X, compiled=True)
    assert seen.collectives == here.collectives
    assert [one.kind for one in seen.collectives] == ["all-reduce"]
    assert seen.layout == here.layout
    np.testing.assert_allclose(seen.value, here.value, rtol=1e-6)
    assert seen.flops > 0


@pytest.mark.parametrize("case", TRACED.values(), ids=TRACED.keys())
def test_a_traced_observation_from_afar_is_that_of_a_call_here(case, process):
    function, *arguments = case
    ask, _ = process(f=function)
    asking = Observer(ask)
    seen = asking.observe(Remote("f"), *arguments, traced=True)
    here = observe(function, *arguments, traced=True)
    assert same(seen.value, here.value)
    assert seen.layout == here.layout
    assert set(here.array_shapes) <= {*seen.array_shapes, (), (8,)}  # keys are (2,)


def summed(row, scale, names):
    if "j" in names:
        return jax.lax.psum(row, "j")
    return {"y": scale * jax.lax.psum(row, "i"), "n": [len(names) * row.sum()]}


@pytest.mark.parametrize("num_devices", [2, 4, 8])
@pytest.mark.parametrize("traced", [False, True], ids=["called", "traced"])
def test_a_function_is_mapped_over_the_axis_on_the_other_side(
    num_devices, traced, process
):
    arguments = X[:num_devices], np.float32(0.5), ("a", 3)
    ask, asked = process(f=summed)
    seen = Observer(ask).observe(Remote("f"), *arguments, traced=traced, axis="i")
    here = observe(summed, *arguments, traced=traced, axis="i")
    assert (seen.error, seen.changed) == (None, ())
    assert seen.call == here.call.replace("summed", "f")
    assert seen.call.endswith('devices, axis "i"')
    assert same(seen.value, here.value)
    assert seen.layout == here.layout and len(seen.layout['["y"]']) == num_devices
    assert seen.collectives == here.collectives
    assert (seen.collectives is not None) == traced
    assert [json.loads(question)["axis"] for question in asked] == ["i"]


@pytest.mark.parametrize("axis", [None, "j"])
@pytest.mark.parametrize("traced", [False, True], ids=["called", "traced"])
def test_an_axis_that_nobody_bound_is_an_error_over_there(axis, traced, process):
    ask, _ = process(f=summed)
    arguments = X, 1.0, ()
    seen = Observer(ask).observe(Remote("f"), *arguments, traced=traced, axis=axis)
    here = observe(summed, *arguments, traced=traced, axis=axis)
    assert seen.error == here.error
    assert seen.error.kinds[0] == "NameError"
    assert (seen.value, seen.collectives, seen.array_shapes) == (None, None, None)


@functools.partial(jax.pmap, axis_name="i")
def gathered(row):
    return jax.lax.fori_loop(0, 3, lambda _, y: jax.lax.pmean(y, "i"), row)


def test_the_collectives_are_those_of_the_program(process):
    ask, _ = process(f=gathered)
    seen = Observer(ask).observe(Remote("f"), X, traced=True)
    expected = Collective("all-reduce", "add", "f32", (2,), 8, True, 3)
    assert seen.collectives == (expected,)
    assert Observer(ask).observe(Remote("f"), X).collectives is None


def renewed(x):
    return jax.pmap(lambda row: row + 1)(x)


def test_what_a_call_compiles_arrives(process):
    ask, _ = process(f=gathered, g=renewed)
    asking = Observer(ask)
    first, *others = (asking.observe(Remote("f"), X[:6]) for _ in range(3))
    assert [first.num_compiles, *(seen.num_compiles for seen in others)] == [1, 0, 0]
    expect_kept_program(others[0])
    for _ in range(2):
        seen = asking.observe(Remote("g"), X, traced=True)
        assert seen.num_compiles == 1
        with pytest.raises(Wrong, match="compiled 1 program again"):
            expect_kept_program(seen)


def test_the_program_is_asked_for_before_any_number_is_told(process):
    ask, asked = process(f=SQUARE)
    Observer(ask).observe(Remote("f"), X, traced=True)
    first, second = map(json.loads, asked)
    assert (first["ask"], second["ask"]) == ("program", "call")
    assert "data" not in asked[0]
    assert decode(first["arguments"]) == [jax.ShapeDtypeStruct(X.shape, X.dtype)]
    assert same(decode(second["arguments"]), [X])


def doubled(x):
    return 2 * x + jax.lax.axis_index("i").astype(x.dtype)


def printing(x):
    jax.debug.print("x has {} numbers", x.size)
    return doubled(x)


def setting_a_mesh(x):
    with jax.set_mesh(jax.make_mesh((8,), ("data",))):
        return doubled(x)


def test_under_an_axis_a_function_that_can_be_exported_is_not_called(process):
    ask, asked = process(f=doubled)
    seen = Observer(ask).observe(Remote("f"), X, traced=True, axis="i")
    here = observe(doubled, X, traced=True, axis="i")
    assert [json.loads(question)["ask"] for question in asked] == ["program"]
    assert same(seen.value, here.value) and seen.layout == here.layout
    assert (seen.changed, seen.error) == ((), None)


def test_under_an_axis_one_that_prints_is_not_called_either(process):
    ask, asked = process(f=printing)
    seen = Observer(ask).observe(Remote("f"), X, traced=True, axis="i")
    assert {json.loads(question)["ask"] for question in asked} == {"program"}
    assert same(seen.value, observe(doubled, X, axis="i").value)


def test_under_an_axis_what_fails_in_a_call_fails(process):
    ask, _ = process(f=setting_a_mesh)
    seen = Observer(ask).observe(Remote("f"), X, traced=True, axis="i")
    here = observe(setting_a_mesh, X, traced=True, axis="i")
    assert here.error is not None
    assert seen.error.kinds == here.error.kinds


def updating(params, x, rest):
    params["w"] = params["w"] + 1
    return x * params["w"]


def test_under_an_axis_changed_arguments_are_told_without_a_call(process):
    ask, asked = process(f=updating)
    arguments = {"w": X}, X, 3
    seen = Observer(ask).observe(Remote("f"), *arguments, traced=True, axis="i")
    assert [json.loads(question)["ask"] for question in asked] == ["program"]
    assert seen.changed == (0,)
    assert seen.changed == observe(updating, *arguments, axis="i").changed


@pytest.mark.parametrize("changed", [[-1], ["0"], [1, 0], {}, None, [0] * 101])
def test_under_an_axis_false_claims_of_changes_are_distrusted(changed):
    def mapped(x):
        return jax.pmap(doubled, axis_name="i")(x)

    ask = answering(program_of(mapped, X) | {"changed": changed})
    with pytest.raises(NoObservation) as end:
        Observer(ask).observe(Remote("f"), X, traced=True, axis="i")
    assert end.value.kind == "distrusted"


def test_a_program_is_asked_for_until_two_answers_are_the_same(process):
    ask, asked = process(f=SQUARE)
    asking = Observer(ask)
    for _ in range(4):
        seen = asking.observe(Remote("f"), X, traced=True)
        assert same(seen.value, X * X)
    kinds = [json.loads(question)["ask"] for question in asked]
    assert kinds == ["program", "call"] * 2 + ["call"] * 2
    asking.observe(Remote("f"), X[:4], traced=True)
    assert json.loads(asked[-2])["ask"] == "program"


def test_who_remembers_a_call_is_found_by_the_second_program(process):
    kept = []

    def remembering(x):
        if kept:
            return kept[0]
        result = SQUARE(x)
        if not isinstance(result, jax.core.Tracer):
            kept.append(result)
        return result

    ask, _ = process(f=remembering)
    asking = Observer(ask)
    for number in (1, 2):
        seen = asking.observe(Remote("f"), number * X, traced=True)
        assert same(seen.value, number * X * number * X) == (number == 1)


def test_only_a_name_and_inputs_are_told(process):
    ask, asked = process(f=SQUARE)
    Observer(ask).observe(Remote("f"), X)
    [question] = map(json.loads, asked)
    assert question.keys() == {"ask", "function", "arguments", "axis", "id", "clean"}
    assert (question["function"], question["clean"]) == ("f", False)


def test_each_question_has_a_number_of_its_own(process):
    ask, asked = process(f=SQUARE)
    asking = Observer(ask)
    for _ in range(3):
        asking.observe(Remote("f"), X)
    assert len({json.loads(question)["id"] for question in asked}) == 3


def test_of_a_function_the_name_alone_decides_what_is_called(process):
    def f(x):
        raise AssertionError("this one is never called")

    ask, _ = process(f=SQUARE)
    seen = Observer(ask).observe(f, X)
    assert (seen.function, seen.error) == ("f", None)
    assert same(seen.value, X * X)


@pytest.mark.parametrize("traced", [False, True])
def test_a_missing_function_is_not_attempted(process, traced):
    ask, _ = process(g=SQUARE)
    end = no_observation(ask, X, traced=traced)
    assert (end.kind, str(end)) == ("missing", "f is not defined.")


@pytest.mark.parametrize(
    ("why", "kind"),
    [
        ("timed out", "timed out"),
        ("died", "died"),
        ("no answer", "died"),
        ("limit: memory", "died"),
    ],
)
@pytest.mark.parametrize("traced", [False, True])
def test_an_end_of_the_process_ends_the_check(why, kind, traced):
    assert (
        no_observation(lambda question: {"ended": why}, X, traced=traced).kind == kind
    )


GOOD = call_of(SQUARE, X)
FORGED = [
    "",
    "several",
    "null",
    "[]",
    '"id"',
    "{",
    "[" * 10**5,
    json.dumps(GOOD),
    json.dumps({"id": "0", **GOOD}),
    json.dumps({"id": None, **GOOD}),
    json.dumps({"id": 7, "missing": "f"}),
    json.dumps({"missing": "f"}),
]


@pytest.mark.parametrize("answer", FORGED, ids=lambda answer: answer[:20])
@pytest.mark.parametrize("traced", [False, True])
def test_an_answer_of_another_form_or_number_is_distrusted(answer, traced):
    assert (
        no_observation(lambda _: {"answer": answer}, X, traced=traced).kind
        == "distrusted"
    )


def test_an_earlier_answer_is_not_accepted_again(process):
    ask, _ = process(f=SQUARE)
    kept = []

    def repeat(question):
        kept.append(ask(question))
        return kept[0]

    asking = Observer(repeat)
    asking.observe(Remote("f"), X)
    with pytest.raises(NoObservation) as end:
        asking.observe(Remote("f"), X)
    assert end.value.kind == "distrusted"


def facts(**changes):
    return GOOD | {"seen": GOOD["seen"] | changes}


def without(name):
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.mark.parametrize(
    "reply",
    [
        {},
        without("seen"),
        without("after"),
        GOOD | {"seen": None},
        GOOD | {"seen": {}},
        GOOD | {"seen": 3, "verdict": "PASSED"},
        GOOD | {"after": None},
        GOOD | {"after": {"list": GOOD["after"]}},
        GOOD | {"after": []},
        GOOD | {"after": GOOD["after"] * 2},
        GOOD | {"after": [{"set": []}]},
        {"verdict": "PASSED", "outcome": "right"},
        facts(value={"array": "object", "shape": [1], "data": "AAAAAAAAAAA="}),
        facts(value={"array": "float32", "shape": [2**40]}),
        facts(layout={"": [[9, [[0, 8], [0, 2]]]]}),
        facts(layout={"elsewhere": []}),
        facts(error={"kinds": [], "message": "", "function": "", "trace": []}),
        facts(changed=[-1]),
        facts(array_shapes=[]),
        facts(collectives=[]),
        facts(num_compiles=-1),
        facts(num_compiles=True),
        facts(num_compiles=1.0),
        facts(num_compiles="1"),
        facts(num_compiles=None),
        facts(num_compiles=2**31),
        facts(num_compiles=10**400),
    ],
    ids=range(27),
)
def test_a_forged_observation_is_distrusted(reply):
    assert no_observation(answering(reply), X).kind == "distrusted"


class Unreadable(collections.abc.Mapping):
    """A result that raises when one looks at it."""

    def __getitem__(self, key):
        raise SystemExit

    __iter__ = __len__ = __getitem__


def test_what_a_call_changed_is_seen_in_the_arguments_or_admitted():
    claims = facts(changed=[]) | {"after": [encode(2 * X)]}
    assert Observer(answering(claims)).observe(Remote("f"), X).changed == (0,)
    claims = facts(changed=[0])  # equal objects in the place of those given, maybe
    assert Observer(answering(claims)).observe(Remote("f"), X).changed == (0,)


@pytest.mark.parametrize(
    "argument",
    [
        np.float32(np.nan),
        np.array([np.nan, -0.0]),
        jnp.ones((2, 2), jnp.bfloat16),
        jax.random.key(1),
        {"a": [1, (2.0, None)], "b": {3: b"x"}},
        "text",
        1j,
    ],
    ids=lambda argument: type(argument).__name__,
)
def test_an_argument_that_is_only_read_is_unchanged(process, argument):
    ask, _ = process(f=lambda x: 3)
    assert Observer(ask).observe(Remote("f"), argument, argument).changed == ()


def replaced_inside(x):
    x["w"][0] = {1, 2}


def test_an_argument_that_can_no_longer_be_sent_is_changed(process):
    ask, _ = process(f=replaced_inside)
    assert Observer(ask).observe(Remote("f"), {"w": [1]}).changed == (0,)


def test_what_cannot_be_looked_at_is_a_failure(process):
    ask, _ = process(f=lambda x: Unreadable())
    assert no_observation(ask, X).kind == "unreadable"


def honest_numpy(x):
    return np.square(x)


def waits_for_a_number(x):
    return SQUARE(x) * float(jnp.sum(x) > 0)


@pytest.mark.parametrize("function", [honest_numpy, waits_for_a_number])
def test_without_a_program_only_the_call_tells_what_it_did(process, function):
    ask, _ = process(f=lambda x: function(np.asarray(x)))
    seen = Observer(ask).observe(Remote("f"), X, traced=True)
    here = observe(lambda x: function(np.asarray(x)), X, traced=True)
    assert (seen.layout, seen.refused) == (here.layout, here.refused)
    assert seen.refused.startswith("TracerArrayConversionError: The numpy.ndarray")
    expect_close(seen, X * X)
    assert (seen.collectives, seen.array_shapes, seen.dtypes) == (None, None, None)
    with pytest.raises(Wrong, match="could not make a program"):
        expect_arrays(seen, largest=10**6)


def test_a_number_computed_on_the_host_lies_on_no_device(process):
    ask, _ = process(f=honest_numpy)
    seen = Observer(ask).observe(Remote("f"), X, traced=True)
    assert seen.layout == {}
    with pytest.raises(Wrong, match="on no device"):
        expect_devices(seen, 8)


def test_devices_that_the_process_claims_are_not_believed_beside_a_program():
    claims = call_of(SQUARE, X)
    assert len(claims["seen"]["layout"][""]) == 8
    ask = answering(program_of(jnp.square, X), claims)
    seen = Observer(ask).observe(Remote("f"), X, traced=True)
    assert len(seen.layout[""]) == 1
    with pytest.raises(Wrong):
        expect_devices(seen, 8)


def placed(spec, sizes, devices):
    """Makes a function that places an array of 8 by 2 elements."""
    mesh = Mesh(np.array(devices).reshape(sizes), ("a", "b")[: len(sizes)])
    return lambda x: jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


ALL = jax.devices()
HALVES = placed(["a"], (2,), ALL[:2])
CLAIMS = {
    # Believed: the program makes such pieces, or smaller ones, and as many at least.
    "the same": (HALVES, HALVES, True),
    "other devices": (HALVES, placed(["a"], (2,), ALL[6:]), True),
    "another order": (HALVES, placed(["a"], (2,), ALL[1::-1]), True),
    "fewer copies": (placed([], (8,), ALL), placed([], (1,), ALL[:1]), True),
    "larger pieces": (placed(["a"], (8,), ALL), placed([], (4,), ALL[:4]), True),
    # Not believed.
    "more copies": (HALVES, placed(["a"], (2, 2), ALL[:4]), False),
    "smaller pieces": (placed([], (8,), ALL), placed(["a"], (8,), ALL), False),
    "another cut": (HALVES, placed([None, "a"], (2,), ALL[:2]), False),
    "another shape": (HALVES, lambda x: HALVES(x.reshape(4, 4)), False),
    "another rank": (HALVES, lambda x: HALVES(x.reshape(2, 4, 2)), False),
}


@pytest.mark.parametrize("case", CLAIMS.values(), ids=CLAIMS.keys())
def test_the_devices_are_those_that_a_call_claims_as_far_as_its_program_allows(case):
    program, claim, is_believed = case
    x = jnp.asarray(X)
    ask = answering(program_of(program, X), call_of(claim, x))
    seen = Observer(ask).observe(Remote("f"), x, traced=True)
    claimed = observe(claim, x).layout
    assert (seen.layout == claimed) == is_believed
    if not is_believed:
        assert seen.layout == observe(program, x).layout
    np.testing.assert_array_equal(seen.value, X)


@pytest.mark.parametrize("reason", [3, None, ["no"], "no" * 1000], ids=type)
def test_a_forged_reason_is_distrusted(reason):
    ask = answering({"refused": reason}, call_of(SQUARE, X))
    assert no_observation(ask, X, traced=True).kind == "distrusted"


def test_shapes_that_the_process_claims_are_not_believed():
    claims = facts() | {"array_shapes": [[1]], "shapes": [[1]]}
    ask = answering(program_of(SQUARE, X) | {"shapes": []}, claims)
    seen = Observer(ask).observe(Remote("f"), X, traced=True)
    assert (8, 2) in seen.array_shapes


def test_collectives_that_the_process_claims_are_not_believed():
    total = jax.pmap(lambda row: jax.lax.psum(row, "i"), axis_name="i")
    claims = call_of(total, X)
    reply = program_of(total, X) | {"collectives": []}
    seen = Observer(answering(reply, claims)).observe(Remote("f"), X, traced=True)
    expect_collectives(seen, {"all-reduce": 1})
    with pytest.raises(Wrong, match="runs all-reduce, which"):
        expect_collectives(seen, never=["all-reduce"])

    ask = answering({"refused": "no", "collectives": []}, claims)
    seen = Observer(ask).observe(Remote("f"), X, traced=True)
    assert seen.collectives is None
    with pytest.raises(Wrong, match="could not make a program"):
        expect_collectives(seen, never=["all-reduce"])


def test_right_values_beside_a_program_that_computes_others_are_wrong():
    ask = answering(program_of(jax.pmap(lambda row: 3 * row), X), call_of(SQUARE, X))
    seen = Observer(ask).observe(Remote("f"), X, traced=True)
    np.testing.assert_array_equal(seen.value, 3 * X)
    with pytest.raises(Wrong):
        expect_close(seen, X * X)


def test_an_error_is_believed_but_nothing_beside_it():
    ask = answering(program_of(SQUARE, X), call_of(stub, X))
    seen = Observer(ask).observe(Remote("f"), X, traced=True)
    assert (seen.value, seen.layout, seen.array_shapes) == (None, {}, None)
    with pytest.raises(NotAttempted):
        expect_close(seen, X * X)
    forged = call_of(stub, X)
    forged["seen"]["value"] = GOOD["seen"]["value"]
    ask = answering(program_of(SQUARE, X), forged)
    assert no_observation(ask, X, traced=True).kind == "distrusted"


PROGRAM = program_of(SQUARE, X)
EVIL = jax.export.DisabledSafetyCheck.custom_call("evil")


def calls_out():
    run = jax.jit(
        lambda x: (jax.ffi.ffi_call("evil", jax.ShapeDtypeStruct(x.shape, x.dtype))(x),)
    )
    exported = jax.export.export(run, platforms=["cpu"], disabled_checks=[EVIL])(X)
    return {"program": exported.mlir_module()}


DISTRUSTED = {
    "nothing": {},
    "no program": {"program": None},
    "a number": {"program": 3},
    "binary": {"program": "ML\xefR\x01"},
    "empty": {"program": ""},
    "garbage": {"program": "A" * 4000},
    "truncated": {"program": PROGRAM["program"][:500]},
    "forged structure": {"result": {"set": []}},
    "structure with an array": {"result": encode({"y": Opaque("leaf 0"), "x": X})},
    "other inputs": program_of(SQUARE, X[:4]),
    "other numbers": program_of(SQUARE, X.astype(np.int32)),
    "calls out": calls_out(),
}


@pytest.mark.parametrize("changes", DISTRUSTED.values(), ids=DISTRUSTED.keys())
def test_a_forged_program_is_distrusted(changes):
    reply = PROGRAM | changes if changes else {}
    end = no_observation(answering(reply, GOOD), X, traced=True)
    assert end.kind == "distrusted"
    assert str(end).startswith("The program of f cannot be trusted")


@pytest.mark.parametrize(
    "template",
    [None, 3, "text", [], Opaque("leaf 1"), [Opaque("leaf 0"), Opaque("leaf 0")]],
    ids=repr,
)
def test_a_structure_that_does_not_fit_its_program_is_a_failure(template):
    reply = PROGRAM | {"result": encode(template)}
    assert no_observation(answering(reply, GOOD), X, traced=True).kind == "unreadable"


def test_a_program_that_fails_when_it_runs_is_a_failure():
    def huge(x):
        return jnp.zeros((2**20, 2**20, 2**10)) + jnp.sum(x)

    end = no_observation(answering(program_of(huge, X), GOOD), X, traced=True)
    assert end.kind == "unreadable"
    assert "MiB of memory" in str(end)


def test_no_except_clause_of_a_check_holds_a_verdict():
    asking = Observer(lambda question: {"ended": "died"})
    with pytest.raises(NoObservation):
        for _ in range(3):
            with contextlib.suppress(Exception):
                asking.observe(Remote("f"), X)
    assert not issubclass(NoObservation, Exception)


def test_a_question_keeps_nothing_of_the_answer_before():
    reply = copy.deepcopy(GOOD)
    ask = answering(reply, call_of(lambda x: 3, X))
    asking = Observer(ask)
    assert asking.observe(Remote("f"), X).layout
    second = asking.observe(Remote("f"), X)
    assert (second.value, second.layout) == (3, {})


def test_a_call_that_fails_gets_nothing_of_its_program(process):
    def fails_when_called(x):
        if not isinstance(x, jax.core.Tracer):
            raise KeyError("no such row")
        return x + 1

    asking = Observer(process(f=fails_when_called)[0])
    seen = asking.observe(Remote("f"), X, traced=True)
    assert (seen.value, seen.error.kinds[0]) == (None, "KeyError")
    assert asking.raised == {"KeyError"}


def test_an_environment_is_tried_in_one_process_only():
    started = []

    def count_devices(env):
        started.append(env)
        return env.get("n", "JAX did not start")

    known = {}
    count = remembered(count_devices, known)
    assert [count({"n": n}) for n in (4, 8, 8, 2, 8)] == [4, 8, 8, 2, 8]
    assert started == [{"n": 4}, {"n": 8}, {"n": 2}]
    # What went wrong may go right another time.
    for _ in range(2):
        assert count({}) == "JAX did not start"
    assert started[3:] == [{}, {}]
    count({"TOKEN": "of a learner", "n": 4})
    assert "learner" not in repr(known)  # which is kept in a file
