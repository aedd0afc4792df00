"""An observation reports what a learner's function did, whatever that was."""

import functools
import linecache
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.context import current_context
from coursekit.expect import expect_result
from coursekit.learner import IS_CHECKS
from coursekit.observation import Opaque, Shard, describe
from coursekit.observe import observe
from coursekit.outcomes import NOT_WRITTEN, NotAttempted
from coursekit.tracing import traced

X = np.arange(24, dtype=np.float32).reshape(8, 3)


def cell(source, name, namespace=None):
    """Runs source as a notebook does: its lines are known, but in no file."""
    filename = f"<cell of {name}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    if namespace is None:
        namespace = {"jax": jax, "jnp": jnp, "np": np, "sys": sys}
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]


def raising(kind):
    def function(x):
        raise kind("told you so")

    return function


def put(array, spec, **axes):
    sizes, names = tuple(axes.values()), tuple(axes)
    mesh = jax.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))
    return jax.device_put(array, NamedSharding(mesh, spec))


def test_a_call_is_named_with_its_arguments():
    def scale(x, factor):
        return x * factor

    seen = observe(scale, X, 3)
    assert (seen.function, seen.call) == ("scale", "scale(f32[8,3], 3)")


def test_a_partial_function_can_be_observed():
    seen = observe(functools.partial(np.add, X), 1)
    assert seen.call == "partial(1)"
    assert seen.value[0, 0] == 1


def test_a_result_becomes_host_data():
    seen = observe(lambda x: {"y": jnp.sum(x), "n": 3}, X)
    assert type(seen.value["y"]) is np.ndarray
    assert (seen.value["y"], seen.value["n"]) == (276, 3)
    assert (seen.error, seen.printed, seen.changed) == (None, "", ())
    assert seen.array_shapes is None


@pytest.mark.parametrize(
    ("result", "name"),
    [
        ({1, 2}, "set"),
        (np.array([None, "a"]), "object array"),
        (jax.jit(jnp.sum), "PjitFunction"),
    ],
    ids=["set", "object array", "function"],
)
def test_a_result_that_is_no_data_keeps_only_a_name(result, name):
    assert observe(lambda: [result]).value == [Opaque(name)]


def test_a_leaked_tracer_is_a_result_without_data():
    def leak(x):
        leaked = []
        jax.jit(leaked.append)(x)
        return leaked[0]

    seen = observe(leak, X)
    assert seen.value is None or isinstance(seen.value, Opaque)
    assert seen.layout == {}


def test_host_arrays_have_no_layout():
    seen = observe(lambda x: {"host": x, "device": jnp.asarray(x), "n": 1}, X)
    assert seen.layout == {'["device"]': (Shard(0, ((0, 8), (0, 3))),)}


def test_pmap_lays_out_one_row_per_device():
    seen = observe(jax.pmap(lambda row: 2 * row), X)
    rows = tuple(Shard(d, ((d, d + 1), (0, 3))) for d in range(8))
    assert seen.layout == {"": rows}


def test_a_scalar_per_device_lays_out_one_number_per_device():
    seen = observe(jax.pmap(jnp.sum), X)
    assert seen.layout == {"": tuple(Shard(d, ((d, d + 1),)) for d in range(8))}


def test_a_replicated_array_is_whole_on_every_device():
    seen = observe(lambda x: [put(x, P(), data=8)], X)
    whole = tuple(Shard(d, ((0, 8), (0, 3))) for d in range(8))
    assert seen.layout == {"[0]": whole}


def test_a_mesh_of_two_axes_cuts_both_ways():
    seen = observe(lambda x: put(x.reshape(4, 6)[:, :4], P("a", "b"), a=2, b=4), X)
    assert seen.layout[""] == tuple(
        Shard(4 * row + column, ((2 * row, 2 * row + 2), (column, column + 1)))
        for row in range(2)
        for column in range(4)
    )


def test_keys_have_a_layout_too():
    split = jax.pmap(lambda key: jax.random.fold_in(key, 1))
    seen = observe(split, jax.random.split(jax.random.key(0), 8))
    assert [shard.index[0] for shard in seen.layout[""]] == [
        (d, d + 1) for d in range(8)
    ]


@pytest.mark.parametrize(
    "kind",
    [
        ValueError,
        KeyError,
        AssertionError,
        NameError,
        RecursionError,
        StopIteration,
        Warning,
        SystemExit,
        GeneratorExit,
        type("Mine", (ValueError,), {}),
    ],
)
@pytest.mark.parametrize("traced", [False, True], ids=["called", "traced"])
def test_whatever_a_function_raises_is_an_outcome(kind, traced):
    function = raising(kind)
    error = observe(function, X, traced=traced).error
    assert error.kinds[0] == kind.__name__
    assert error.kinds[-1] == "BaseException"
    assert error.message.strip("'") == "told you so"
    line = function.__code__.co_firstlineno + 1
    told = f'in {function.__name__}, line {line}: raise kind("told you so")'
    assert error.trace == (told,)


def test_an_error_whose_text_fails_is_an_outcome():
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError

    assert observe(raising(Silent), X).error.kinds[0] == "Silent"


def test_a_keyboard_interrupt_passes_through():
    with pytest.raises(KeyboardInterrupt):
        observe(raising(KeyboardInterrupt), X)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.vmap, jax.pmap])
def test_an_error_inside_jax_is_blamed_on_the_learners_line(wrap):
    function = cell("def f(x):\n    y = x\n    return y @ jnp.ones((7, 7))\n", "f")
    error = observe(wrap(function), X).error
    assert error.trace == ("in f, line 3: return y @ jnp.ones((7, 7))",)


def test_an_error_in_a_helper_of_the_same_cell_shows_who_called_it():
    source = "def helper(x):\n    return 1 / x\n\ndef f(x):\n    return helper(x)\n"
    error = observe(cell(source, "f"), 0).error
    assert error.trace == (
        "in f, line 5: return helper(x)",
        "in helper, line 2: return 1 / x",
    )
    assert error.function == "helper"


STEP = "\n\ndef step(x):\n    y = x.sum()\n    return y @ y\n"


def driven_by(line, **namespace):
    """Defines a step in one cell and what calls it in another of the same notebook."""
    namespace = {"jax": jax, **namespace}
    if "step" not in namespace:
        cell(STEP, "step", namespace)
    source = (
        f"def train(x):\n    for _ in range(3):\n        x = {line}\n    return x\n"
    )
    return cell(source, "train", namespace)


@pytest.mark.parametrize("call", ["step(x)", "jax.jit(step)(x)", "jax.pmap(step)(x)"])
def test_an_error_under_a_driver_of_the_notebook_shows_its_way(call):
    error = observe(driven_by(call), X).error
    assert error.trace == (
        f"in train, line 3: x = {call}",
        "in step, line 5: return y @ y",
    )


def test_a_stub_under_a_driver_is_named_by_its_own_name():
    source = f"def step(x):\n    raise NotImplementedError({NOT_WRITTEN!r})\n"
    namespace = {}
    cell(source, "step", namespace)
    with pytest.raises(NotAttempted, match="step still holds its stub"):
        expect_result(
            observe(cell("def train(x):\n    step(x)\n", "train", namespace), X)
        )


def test_an_error_in_the_driver_itself_is_blamed_on_the_driver():
    error = observe(driven_by("step"), X).error
    assert error is None
    error = observe(driven_by("step(x['w'])"), X).error
    assert error.trace == ("in train, line 3: x = step(x['w'])",)


def test_an_error_in_a_function_of_elsewhere_is_blamed_on_the_line_that_calls_it():
    elsewhere = cell(STEP, "step", {})
    error = observe(driven_by("step(x)", step=elsewhere), X).error
    assert error.trace == ("in train, line 3: x = step(x)",)


def test_the_last_three_lines_of_a_long_way_are_shown():
    source = "def f(x):\n    return f(x - 1) if x else 1 / 0\n"
    lines = observe(cell(source, "f"), 9).error.trace
    assert lines == ("in f, line 2: return f(x - 1) if x else 1 / 0",) * 3


@pytest.fixture
def helper_of_checks(monkeypatch):
    """A function of a check module, which calls the notebook's `answer`."""
    notebook = {}
    monkeypatch.setattr(current_context(), "namespaces", [notebook])

    def made(answer):
        cell(answer, "answer", notebook)
        checks = {IS_CHECKS: True, "answer": notebook["answer"]}
        source = "def twice(x):\n    return answer(x) + answer(x)\n"
        return cell(source, "twice", checks)

    return made


def test_an_error_under_a_helper_of_a_check_is_blamed_on_the_learners_line(
    helper_of_checks,
):
    helper = helper_of_checks("def answer(x):\n    y = 1 / x\n    return y\n")
    error = observe(helper, 0).error
    assert error.function == "answer"
    assert error.trace == ("in answer, line 2: y = 1 / x",)


def test_a_result_that_a_helper_of_a_check_stumbles_over_is_shown_there(
    helper_of_checks,
):
    helper = helper_of_checks("def answer(x):\n    return None\n")
    error = observe(helper, 0).error
    assert error.trace == ("in the check's twice: return answer(x) + answer(x)",)


def test_an_error_from_a_library_alone_has_no_line():
    error = observe(functools.partial(int), "x").error
    assert error.kinds[0] == "ValueError"
    assert error.trace == ()


@pytest.mark.parametrize("traced", [False, True], ids=["called", "traced"])
def test_what_a_function_prints_is_shown_once(capsys, traced):
    def chatty(x):
        print("to stdout")
        print("to stderr", file=sys.stderr)
        return x

    seen = observe(chatty, X, traced=traced)
    assert capsys.readouterr() == ("to stdout\nto stderr\n", "")
    assert seen.printed == "to stdout\nto stderr\n"


def test_what_a_failing_function_printed_is_shown(capsys):
    def chatty():
        print("before")
        raise ValueError

    observe(chatty)
    assert capsys.readouterr().out == "before\n"


def test_what_jax_prints_of_an_error_itself_is_not_shown(capsys):
    def too_many(rows):
        print("mine\n")
        return jax.pmap(lambda row: row)(rows)

    seen = observe(too_many, np.zeros(9))
    assert "ValueError" in seen.error.kinds
    assert capsys.readouterr().out == "mine\n"
    assert seen.printed == "mine\n\n"


def test_a_long_print_is_shortened(capsys):
    seen = observe(lambda: print("a" * 3000))
    assert capsys.readouterr().out == "a" * 2000 + " ...\n"
    assert len(seen.printed) == 3001


def test_a_silent_function_shows_nothing(capsys):
    observe(lambda: None)
    assert capsys.readouterr() == ("", "")


def grow_dict(mapping):
    mapping["new"] = 1


def grow_list(items):
    items.append(1)


def overwrite(array):
    array[0] = -1


def overwrite_inside(tree):
    tree["w"][0][...] = -1


def exchange(tree):  # what is equal, which no comparison of values shows
    tree["w"] = tree["w"].copy()


def add_what_cannot_be_sorted(tree):
    tree[None] = 1


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        (exchange, {"w": np.zeros(3)}),
        (add_what_cannot_be_sorted, {"w": 2}),
        (grow_dict, {"XLA_FLAGS": ""}),
        (grow_list, []),
        (overwrite, np.zeros(3)),
        (overwrite_inside, {"w": [np.zeros(3)]}),
    ],
)
def test_a_changed_argument_is_reported_and_the_callers_is_unharmed(change, argument):
    before = repr(argument)
    seen = observe(lambda _, value: change(value), X, argument, traced=True)
    assert seen.changed == (1,)
    assert repr(argument) == before


@pytest.mark.parametrize(
    "argument",
    [{"a": [X]}, X, jnp.zeros(2), jax.random.key(0), {1, 2}, None, np.array([np.nan])],
    ids=repr,
)
def test_an_argument_that_is_only_read_is_not_reported(argument):
    assert observe(lambda value: 1, argument).changed == ()


def test_a_donated_argument_is_reported_and_the_callers_array_stays():
    donating = jax.jit(lambda x: x + 1, donate_argnums=0)
    given = jnp.zeros(3)
    seen = observe(donating, given, traced=True)
    assert seen.value.tolist() == [1, 1, 1]
    assert seen.changed == (0,)
    assert given.tolist() == [0, 0, 0]


def test_returning_a_deleted_array_is_the_learners_error():
    def delete(x):
        x.delete()
        return x

    seen = observe(delete, jnp.zeros(3))
    assert "RuntimeError" in seen.error.kinds
    assert (seen.value, seen.layout) == (None, {})


def outer(row):  # f32[3, 3], a shape that no caller's result has
    return jnp.sum(row[:, None] * row[None, :])


@jax.custom_jvp
def with_jvp(row):
    return outer(row)


@jax.custom_vjp
def with_vjp(row):
    return outer(row)


with_jvp.defjvp(lambda primals, tangents: (outer(*primals), outer(*tangents)))
with_vjp.defvjp(lambda row: (outer(row), row), lambda row, g: (g * row,))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: outer(x[0]),
        jax.jit(lambda x: outer(x[0])),
        jax.pmap(outer),
        jax.vmap(jax.jit(lambda row: jax.lax.map(outer, row[None]))),
        lambda x: jax.lax.scan(lambda c, row: (c + outer(row), None), 0.0, x)[0],
        lambda x: jax.lax.cond(x[0, 0] > 1, outer, jnp.sum, x[0]),
        lambda x: jax.lax.fori_loop(0, 2, lambda i, row: row * outer(row), x[0]),
        jax.checkpoint(lambda x: outer(x[0])),
        jax.grad(lambda x: outer(x[0])),
        lambda x: with_jvp(x[0]),
        lambda x: with_vjp(x[0]),
        lambda x: with_jvp(jax.jit(jax.nn.relu)(x[0])),
    ],
    ids=[
        "plain",
        "jit",
        "pmap",
        "map",
        "scan",
        "cond",
        "fori_loop",
        "checkpoint",
        "grad",
        "custom_jvp",
        "custom_vjp",
        "relu",
    ],
)
def test_the_trace_sees_into_every_body(function):
    shapes = observe(function, X, traced=True).array_shapes
    assert {(3, 3), (8, 3, 3)} & set(shapes)


def test_a_mapped_array_counts_with_one_devices_block():
    shapes = traced(jax.pmap(outer), (X,)).shapes
    assert (3, 3) in shapes
    assert (8, 3, 3) not in shapes


def test_relu_is_traced_like_any_function():
    assert traced(lambda x: jnp.sum(jax.nn.relu(x * x)), (X,)).shapes == {(), (8, 3)}


def test_a_constant_that_a_program_computes_with_counts():
    big = np.ones((8, 3, 5), np.float32)
    assert (8, 3, 5) in traced(lambda x: jnp.sum(x) + jnp.sum(big), (X,)).shapes


def test_numpy_may_prepare_what_jax_computes_with():
    assert (4, 2, 3) in traced(lambda x: jnp.sin(x.reshape(4, 2, 3)), (X,)).shapes


@pytest.mark.parametrize(
    "function",
    [
        lambda x: float(jnp.sum(x)),
        lambda x: np.asarray(jnp.sin(x)),
        lambda x: x if jnp.sum(x) > 0 else -x,
    ],
)
def test_a_program_that_does_not_trace_has_no_shapes(function):
    seen = observe(function, X, traced=True)
    assert seen.error is None
    assert seen.array_shapes is None


def given(row, *others):
    """Tells what a mapped function receives for each argument."""
    received.append(jax.tree.map(describe, others))
    return row


received = []


@pytest.fixture
def arrivals():
    received.clear()
    return received


@pytest.mark.parametrize("num_devices", [1, 2, 4, 8])
@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray], ids=["host", "device"])
def test_each_device_gets_its_row(num_devices, convert):
    seen = observe(lambda row: (2 * row, row.sum()), convert(X[:num_devices]), axis="i")
    rows = tuple(Shard(d, ((d, d + 1), (0, 3))) for d in range(num_devices))
    numbers = tuple(Shard(d, ((d, d + 1),)) for d in range(num_devices))
    assert seen.layout == {"[0]": rows, "[1]": numbers}
    np.testing.assert_array_equal(seen.value[0], 2 * X[:num_devices])


def test_the_axis_has_the_name_that_was_asked_for():
    seen = observe(lambda row: lax.psum(row, "rows"), X, axis="rows", traced=True)
    np.testing.assert_array_equal(seen.value, np.tile(X.sum(0), (8, 1)))
    [total] = seen.collectives
    assert (total.kind, total.shape, total.devices) == ("all-reduce", (3,), 8)
    assert (3,) in seen.array_shapes


def test_the_call_names_the_axis():
    def total(row, factor):
        return lax.psum(factor * row, "i")

    seen = observe(total, X, 3.0, axis="i")
    assert (seen.function, seen.call) == (
        "total",
        'total(f32[3], 3.0) on each of 8 devices, axis "i"',
    )
    assert observe(total, X, 3.0).call == "total(f32[8,3], 3.0)"


@pytest.mark.parametrize(
    "argument",
    [3, 2.5, 1j, True, "i", b"x", None, np.float32(0.5), np.int32(3), (1, "a"), {}],
    ids=repr,
)
def test_what_is_no_array_goes_whole_to_every_device(argument, arrivals):
    assert observe(given, X, argument, axis="i").error is None
    assert arrivals == [jax.tree.map(describe, (argument,))]


def test_every_array_in_nested_containers_is_split(arrivals):
    params = {"w": [X, np.zeros(8, np.int32)], "n": 3, "t": ("a", jnp.ones((8, 2, 2)))}
    seen = observe(given, X, {"other": params}, axis="i")
    assert arrivals == [
        ({"other": {"w": ["f32[3]", "i32[]"], "n": "3", "t": ("'a'", "f32[2,2]")}},)
    ]
    assert '{"n": 3, "t": (\'a\', f32[2,2]), "w": [f32[3], i32[]]}' in seen.call


@pytest.mark.parametrize("more", [{}, {"w": 2}])
def test_a_mapped_function_that_changes_a_container_is_reported(more):
    def grow(pair):
        params, _ = pair
        params |= more or {"new": params["w"]}
        return dict(params)

    pair = {"w": X}, [X]
    seen = observe(grow, pair, axis="i")
    assert seen.changed == (0,) and [*pair[0]] == ["w"] and pair[0]["w"] is X
    assert observe(lambda pair: {**pair[0]}, pair, axis="i").changed == ()


@pytest.mark.parametrize(
    "function",
    [
        lambda row: lax.psum(row, "j"),
        lambda row: row * lax.axis_index("rows"),
    ],
)
@pytest.mark.parametrize("traced", [False, True], ids=["called", "traced"])
def test_an_axis_of_another_name_is_the_functions_error(function, traced):
    seen = observe(function, X, axis="i", traced=traced)
    assert seen.error.kinds[0] == "NameError"
    [line] = seen.error.trace
    assert "lambda row" in line
    assert (seen.value, seen.collectives) == (None, None)


@pytest.mark.parametrize(
    "arguments",
    [[X, X[:4]], [3.0], [np.tile(X, (2, 1))]],
    ids=["other lengths", "no array", "too many rows"],
)
def test_arguments_that_cannot_be_split_are_an_outcome(arguments):
    seen = observe(lambda *rows: rows, *arguments, axis="i", traced=True)
    assert "ValueError" in seen.error.kinds
    assert seen.collectives is None


def test_an_error_in_a_mapped_function_is_blamed_on_its_line():
    function = cell("def f(x):\n    y = x\n    return y @ jnp.ones((7, 7))\n", "f")
    error = observe(function, X, axis="i").error
    assert error.trace == ("in f, line 3: return y @ jnp.ones((7, 7))",)


def test_what_a_call_compiles_is_counted():
    kept = jax.jit(lambda x: jnp.sin(x) @ x.T)
    assert [observe(kept, X).num_compiles for _ in range(3)] == [1, 0, 0]
    assert observe(kept, X[:4]).num_compiles == 1
    assert observe(kept, X).num_compiles == 0
    assert observe(lambda x: x + 1, X).num_compiles == 0


def test_a_trace_is_not_counted():
    kept = jax.pmap(lambda row: jnp.cos(row) * 7)
    observe(kept, X, traced=True)
    assert observe(kept, X, traced=True).num_compiles == 0


def test_a_new_program_on_each_call_is_counted_each_time():
    def renewed(x):
        return jax.pmap(lambda row: 2 * row)(x), jax.jit(lambda x: 3 * x)(x)

    assert [observe(renewed, X).num_compiles for _ in range(3)] == [2, 2, 2]


def test_an_observation_is_read_in_a_few_lines():
    def summed(x):
        print("called")
        return jax.pmap(lambda row: jax.lax.psum(row, "d"), "d")(x)

    said = repr(observe(summed, np.ones((8, 2), np.float32), traced=True))
    assert said.splitlines() == [
        "summed(f32[8,2])",
        "  returned f32[8,2]",
        "  result: [1, 2] on each of the devices 0-7",
        "  collectives: all-reduce (add) of f32[2]",
        "  printed 'called\\n'",
    ]
    [_, raised] = repr(observe(lambda x: 1 / 0, 2)).splitlines()
    assert raised == "  raised ZeroDivisionError: division by zero"
