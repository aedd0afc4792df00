"""Each expectation passes on what it asks for and says what is wrong with the rest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from observations import ROWS, X, on_devices, problem, returned, stub

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
from coursekit.observation import Failure, Observation, Opaque
from coursekit.observe import observe
from coursekit.outcomes import NotAttempted, Raised

FLAG = "--xla_force_host_platform_device_count"

SHOWN = {"no": lambda seen: False, "This.": lambda seen: seen.error != 5}


def raised(kind, message, **where):
    kinds = (kind.__name__, "Exception", "BaseException")
    failure = Failure(kinds, message, **where)
    return Observation("f", "f(x)", error=failure)


EVERY = [
    (expect, (True, "No.")),
    (expect_child_devices, (8,)),
    (expect_close, (X,)),
    (expect_entries, ({},)),
    (expect_error, ("ValueError",)),
    (expect_result, ()),
    (expect_shapes, (X,)),
    (expect_unchanged, ()),
]


@pytest.mark.parametrize(("function", "arguments"), EVERY)
def test_a_stub_was_not_attempted(function, arguments):
    error = problem(function, observe(stub), *arguments, kind=NotAttempted)
    assert error.headline == "stub still holds its stub."
    assert error.rows == {
        "likely": "replace its last line by your answer, run the cell, then this one."
    }


@pytest.mark.parametrize(
    ("function", "arguments"), [pair for pair in EVERY if pair[0] is not expect_error]
)
def test_an_error_where_a_result_was_asked_for_is_shown(function, arguments):
    trace = "in train, line 7: x = step(x)", "in step, line 3: return x + 'a'"
    seen = raised(TypeError, "bad\noperand", function="step", trace=trace)
    error = problem(function, seen, *arguments, kind=Raised)
    assert error.headline == "TypeError: bad operand"
    assert error.rows == {
        "called": "f(x)",
        "where": "\n".join(trace),
    }


def test_an_error_from_elsewhere_names_no_line():
    error = problem(expect_result, raised(TypeError, "bad"), kind=Raised)
    assert "where" not in error.rows


@pytest.mark.parametrize("text", ["not ready", "", "not written yet, sorry"])
def test_another_not_implemented_error_is_no_stub(text):
    problem(expect_result, raised(NotImplementedError, text), kind=Raised)


@pytest.mark.parametrize(
    "argument",
    [np.float32(1), X[:4], {"w": X, "b": X[0]}],
    ids=["no axis", "another axis", "one leaf without"],
)
def test_a_missing_device_axis_is_explained(argument):
    seen = observe(jax.pmap(lambda row, other: row), X, argument)
    error = problem(expect_result, seen, kind=Raised)
    assert "in_axes=None replicates an argument" in error.rows["likely"]


def test_a_number_where_a_named_axis_was_looked_for_is_explained():
    seen = observe(jax.pmap(lambda row, rate: row * rate, axis_name="i"), X, 0.1)
    error = problem(expect_result, seen, kind=Raised)
    assert "in_axes=None replicates an argument" in error.rows["likely"]


def test_numpy_in_traced_code_is_explained():
    seen = observe(jax.pmap(lambda row: np.asarray(row)), X)
    error = problem(expect_result, seen, kind=Raised)
    assert "use jnp" in error.rows["likely"]


@pytest.mark.parametrize(
    "function", [lambda row: row if row[0] > 0 else -row, lambda row: float(row[0])]
)
def test_a_value_that_only_a_device_knows_is_not_called_a_missing_axis(function):
    error = problem(expect_result, observe(jax.pmap(function), X), kind=Raised)
    assert "in_axes" not in error.rows.get("likely", "")


def test_a_result_is_a_result():
    expect_result(returned(None))


@pytest.mark.parametrize("holds", [True, np.True_, 1, [0]])
def test_what_holds_passes(holds):
    expect(returned(1), holds, "No.")


@pytest.mark.parametrize("holds", [False, np.False_, 0, None])
def test_what_does_not_hold_is_said_in_the_checks_words(holds):
    error = problem(expect, returned(1), holds, "No.", seen="2", causes=SHOWN)
    assert error.headline == "No."
    assert error.rows == {"called": "f(f32[8,2])", "seen": "2", "likely": "This."}


@pytest.mark.parametrize(
    "text",
    [
        "15 rows on 8 devices",
        "rows=15, devices=8",
        "(15, 3) / 8",
        "8 does not divide 15.",
        "8:15",
    ],
)
def test_an_error_that_names_the_numbers_passes(text):
    expect_error(raised(ValueError, text), "ValueError", mentions=[15, 8])


@pytest.mark.parametrize("kind", [("ValueError", "TypeError"), ValueError])
def test_a_kind_of_error_that_is_no_name_is_refused(kind):
    with pytest.raises(TypeError, match=r'such as "ValueError", not [(<]'):
        expect_error(raised(ValueError, "15"), kind)


@pytest.mark.parametrize(
    "text", ["150 and 8", "115", "15th", "a15", "0.15", "15.5", "x_15"]
)
def test_a_number_inside_another_is_not_named(text):
    seen = raised(ValueError, text)
    error = problem(expect_error, seen, "ValueError", mentions=[15])
    assert error.headline == "The ValueError does not name 15."
    assert error.rows["seen"] == f"ValueError: {text}"
    assert error.rows["expected"] == "ValueError whose text names 15"


def test_an_error_of_a_derived_class_passes():
    def function():
        raise UnicodeDecodeError("utf-8", b"", 0, 1, "no")

    expect_error(observe(function), "ValueError")


def test_no_error_where_one_was_asked_for():
    error = problem(expect_error, returned(X), "ValueError", mentions=[15, 8])
    assert error.headline == "No ValueError was raised."
    assert error.rows == {
        "called": "f(f32[8,2])",
        "seen": "returned f32[8,2]",
        "expected": "ValueError whose text names 15 and 8",
    }


def test_another_error_than_the_one_asked_for():
    seen = raised(TypeError, "15")
    error = problem(expect_error, seen, "ValueError", causes=SHOWN)
    assert error.headline == "TypeError was raised where ValueError was expected."
    assert error.rows == {
        "called": "f(x)",
        "seen": "TypeError: 15",
        "expected": "ValueError",
        "likely": "This.",
    }


def test_an_unchanged_argument_passes():
    expect_unchanged(returned(1))


def test_a_changed_argument_is_counted_from_one():
    error = problem(expect_unchanged, returned(1, changed=(1,)))
    assert error.headline == "Argument 2 was modified in place."
    assert error.rows["expected"] == "a new object; the caller's stays as it was"


def test_more_entries_than_asked_for_pass():
    expect_entries(returned({"HOME": "/home/ada", "n": 1}), {"HOME": "/home/ada"})


@pytest.mark.parametrize("value", [None, [1], X, Opaque("_Environ")])
def test_entries_need_a_dict(value):
    seen = Observation("f", "f(x)", value=value)
    error = problem(expect_entries, seen, {})
    assert error.headline.endswith(", not a dict.")
    assert error.rows["expected"] == "a dict"


@pytest.mark.parametrize("entry", ["/root", None, np.ones(2)])
def test_a_wrong_entry_is_named(entry):
    seen = returned({"HOME": entry})
    error = problem(expect_entries, seen, {"HOME": "/home/ada"})
    assert error.headline == 'result["HOME"] differs from what is expected.'
    assert error.rows["expected"] == "'/home/ada'"


def test_a_missing_entry_is_named():
    error = problem(expect_entries, returned({}), {"HOME": "/home/ada"})
    assert error.headline == 'The result has no entry "HOME".'
    assert error.rows["expected"] == "'/home/ada'"


def test_a_child_with_its_devices_passes():
    expect_child_devices(returned({"XLA_FLAGS": f"{FLAG}=3"}), 3)


def test_a_child_with_too_few_devices():
    error = problem(expect_child_devices, returned({"XLA_FLAGS": ""}), 3)
    assert error.headline == "A fresh process saw 1 device."
    assert error.rows["seen"] == 'XLA_FLAGS=""'
    assert error.rows["expected"] == "3 devices"


def test_a_child_that_does_not_start():
    env = {"XLA_FLAGS": "--xla_no_such_flag=1"}
    error = problem(expect_child_devices, returned(env), 3)
    assert error.headline == (
        "JAX did not start in a fresh process with this environment."
    )
    assert error.rows["seen"].startswith('XLA_FLAGS="--xla_no_such_flag=1"')


@pytest.mark.parametrize(
    "value", [X + 1, np.float64(X), jnp.asarray(X)], ids=["other", "f64", "device"]
)
def test_shapes_do_not_look_at_values(value):
    expect_shapes(returned(value), np.float64(X) if value.dtype == "float64" else X)


def test_another_shape_is_shown():
    error = problem(expect_shapes, returned({"w": X[:4]}), {"w": X})
    assert error.headline == 'result["w"] has shape [4, 2], not [8, 2].'
    assert error.rows["seen"] == '{"w": f32[4,2]}'
    assert error.rows["expected"] == '{"w": f32[8,2]}'


@pytest.mark.parametrize(
    "value", [X, jnp.asarray(X), X * (1 + 5e-6)], ids=["host", "device", "rounded"]
)
def test_close_values_pass(value):
    expect_close(returned(value), X)
    expect_close(returned(value), np.float64(X))


def test_close_values_within_the_given_tolerance_pass():
    expect_close(returned(X * 1.01), X, rtol=0.02)
    expect_close(returned(X + 0.1), X, atol=0.2)


def test_a_wrong_value_is_shown_with_its_place():
    error = problem(expect_close, on_devices(ROWS, X + 10), X, causes=SHOWN)
    assert error.headline == "The result is wrong on all 8 devices."
    assert error.rows == {
        "called": "f(f32[8,2])",
        "seen": "10 at [0, 0]",
        "expected": "0 at [0, 0]",
        "likely": "This.",
    }


def test_a_wrong_device_is_named():
    value = X.copy()
    value[[2, 3]] = -1
    error = problem(expect_close, on_devices(ROWS, value), X)
    assert error.headline == "The result is wrong on 2 of 8 devices: 2-3."


def test_the_shape_is_looked_at_before_the_values():
    options = {"mistakes": {"This.": X.T + 1}, "causes": {"no": lambda seen: True}}
    error = problem(expect_close, returned(X.T + 1), X, **options)
    assert error.headline == "The result has shape [2, 8], not [8, 2]."
    assert error.rows["likely"] == "This."
    error = problem(expect_close, returned(X.T), X, **options)
    assert "likely" not in error.rows  # causes look at values


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (X + 10, "the bias was added twice"),
        (X * 20, "it was doubled"),
        (X - 30, "something else"),
    ],
)
def test_the_mistake_that_matches_is_the_likely_cause(value, cause):
    causes = {"the bias was added twice": X + 10, "it was doubled": X * 20}
    options = {"mistakes": causes, "causes": {"something else": lambda seen: True}}
    assert problem(expect_close, returned(value), X, **options).rows["likely"] == cause


def test_a_cause_whose_test_does_not_fit_the_result_is_not_shown():
    causes = {"it is negative": lambda seen: seen.value["w"] < 0, **SHOWN}
    error = problem(expect, returned(1), False, "No.", causes=causes)
    assert error.rows["likely"] == "This."


def test_a_mistake_of_another_shape_does_not_match():
    options = {"mistakes": {"it was summed": np.float32(7)}, "causes": SHOWN}
    error = problem(expect_close, returned(X + 10), X, **options)
    assert error.rows["likely"] == "This."


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (lambda x, m: x[m].sum(), "jnp.where"),
        (lambda x, m: x if x.sum() > 0 else -x, "jnp.where"),
        (lambda x, m: lax.psum(x, "no such axis"), "axis_name"),
        (lambda x, m: np.sin(x), "jnp"),
        (lambda x, m: lax.ppermute(x, "i", [(lax.axis_index("i"), 0)]), "same list"),
        (lambda x, m: x * int(x.sum()), "as it is"),
        (lambda x, m: [x for _ in range(m.sum())], "as it is"),
        (lambda x, m: jax.grad(jnp.sin)(x), "a mean"),
        (lambda x, m: lax.scan(lambda c, r: (c[:1], r), x, x), "first round"),
        (lambda x, m: lax.fori_loop(0, 2, lambda i, c: c[::-1], (x, m)), "dtype"),
    ],
    ids=[
        *("mask as an index", "if", "axis", "NumPy", "pairs"),
        *("int", "number of times", "vector", "carry", "other order"),
    ],
)
def test_what_jax_says_of_traced_code_is_explained(function, remedy):
    seen = observe(function, X, X > 0, axis="i")
    error = problem(expect_result, seen, kind=Raised)
    assert remedy in error.rows["likely"]


@pytest.mark.parametrize(
    ("function", "in_specs", "remedy"),
    [
        (lambda x, rate: x.mean(), (P("i"), P()), "pmean it"),
        (lambda x, rate: x * rate, (P("i"), P("i")), "P() for a single number"),
        (lambda x, rate: jnp.ones(5) @ x[:, 0], (P("i"), P()), "leading axis"),
    ],
    ids=["no pmean", "spec of a number", "axis of a block"],
)
def test_what_jax_says_of_shard_map_is_explained(function, in_specs, remedy):
    mesh = Mesh(jax.devices(), ("i",))
    mapped = jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=P())
    error = problem(expect_result, observe(jax.jit(mapped), X, 0.1), kind=Raised)
    assert remedy in error.rows["likely"]


def test_explicit_axes_are_explained():
    # JAX 0.7 accepts them here.
    text = "in_specs passed to shard_map: P('i',) does not match the specs of the input"
    error = problem(expect_result, raised(ValueError, text), kind=Raised)
    assert "Mesh(devices, names)" in error.rows["likely"]


def test_a_text_that_names_all_numbers_names_none():
    few = raised(ValueError, f"{[*range(12)]} holds 7")
    expect_error(few, "ValueError", mentions=[7])
    all_of_them = raised(ValueError, " ".join(map(str, range(100))))
    error = problem(expect_error, all_of_them, "ValueError", mentions=[7])
    assert error.headline == "The ValueError names 100 different numbers."


@pytest.mark.parametrize(
    ("result", "expected", "cause"),
    [
        ([np.nan, 1.0], [0.5, 1.0], "nan comes from 0 / 0"),
        ([np.inf, 1.0], [0.5, 1.0], "inf comes from a division by 0"),
        ([np.nan, 2.0], [np.nan, 1.0], ""),
        ([2, 1], [3, 1], ""),
    ],
)
def test_nan_and_inf_that_nobody_expects_have_a_general_cause(result, expected, cause):
    seen, wanted = returned(np.asarray(result)), np.asarray(expected)
    likely = problem(expect_close, seen, wanted).rows.get("likely", "")
    assert likely.startswith(cause) and bool(likely) == bool(cause)


def test_a_computed_cause_comes_before_the_general_one():
    seen, nan = returned(np.array([np.nan])), np.array([np.nan])
    mistakes = {"a device without valid rows": nan}
    error = problem(expect_close, seen, np.array([1.0]), mistakes=mistakes)
    assert error.rows["likely"] == "a device without valid rows"
