"""Code that places arrays is traced in each idiom of JAX, or its reason is reported."""

import contextlib

import idioms
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from idioms import CASES, TRACED, UNTRACED, X
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit import tracing
from coursekit.observe import observe, shards
from coursekit.tracing import Untraceable

LARGE = "8 devices"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("idiom", TRACED, ids=lambda one: one.__name__)
def test_a_right_answer_is_traced_in_each_idiom(idiom, case):
    seen = observe(idiom, *case, traced=True)
    assert (seen.error, seen.refused) == (None, "")
    assert None not in (seen.collectives, seen.array_shapes, seen.dtypes)
    assert seen.layout


@pytest.mark.parametrize("idiom", UNTRACED, ids=lambda one: one.__name__)
def test_what_is_not_traced_keeps_value_and_layout(idiom):
    traced, called = (observe(idiom, *CASES[LARGE], traced=t) for t in (True, False))
    assert traced.refused and "\n" not in traced.refused
    assert (traced.collectives, traced.array_shapes, traced.dtypes) == (None,) * 3
    np.testing.assert_array_equal(traced.value, called.value)
    assert traced.layout == called.layout == {"": shards(idiom(*CASES[LARGE]))}


def test_the_reason_is_the_first_line_of_jaxs_own():
    seen = observe(lambda x: np.asarray(x) + 1, X, traced=True)
    assert seen.refused == (
        "TracerArrayConversionError: The numpy.ndarray conversion method __array__()"
        " was called on traced array with shape float32[24,16]"
    )


class Silent(Exception):
    """Its text cannot be read."""

    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize("error", [SystemExit(3), Silent(), ValueError("a\nb" * 999)])
def test_whatever_code_raises_while_it_is_traced_is_a_reason(error):
    def only_when_traced(x):
        if isinstance(x, jax.core.Tracer):
            raise error
        return x

    seen = observe(only_when_traced, X, traced=True)
    assert seen.refused.startswith(f"{type(error).__name__}: ")
    assert len(seen.refused) <= 300 and "\n" not in seen.refused


def test_an_error_leaves_no_reason_beside_it():
    seen = observe(lambda x: np.asarray(x) @ x, X, traced=True)
    assert (seen.error.kinds[0], seen.refused) == ("ValueError", "")


def test_a_program_that_asks_the_host_is_none():
    def on_the_host(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    for how in ({"traced": True}, {"compiled": True}):
        seen = observe(on_the_host, X, **how)
        assert seen.refused.startswith("NotImplementedError: ")
        assert seen.array_shapes is None


def state():
    """What a trace replaces for a time."""
    owners = (jax, jax.debug, jax.core, jax.sharding, jax.numpy, jax.core.Tracer)
    return [dict(vars(one)) for one in (*owners, idioms)]


@pytest.mark.parametrize("idiom", (*TRACED, *UNTRACED), ids=lambda one: one.__name__)
def test_a_trace_leaves_jax_and_the_notebook_as_they_were(idiom):
    before, mesh = state(), jax.sharding.get_abstract_mesh()
    for how in ("traced", "compiled"):
        observe(idiom, *CASES[LARGE], **{how: True})
    assert state() == before
    assert jax.sharding.get_abstract_mesh() == mesh


@pytest.mark.parametrize("order", [(True, False), (False, True)], ids=["first", "last"])
def test_a_trace_changes_no_call_of_what_jax_keeps(order, capfd):
    @jax.jit
    def kept(x):
        jax.debug.print("in the call")
        place = NamedSharding(Mesh(jax.devices(), ("rows",)), P("rows"))
        return jax.device_put(x + 1, place)

    def trace():
        return tracing.traced(kept, [X]).shapes

    def call():
        return shards(jax.block_until_ready(kept(X)))

    expected = call()  # of a function of its own
    kept.clear_cache()
    capfd.readouterr()
    found = [trace() if is_trace else call() for is_trace in order]
    assert found[order.index(False)] == expected
    assert X.shape in found[order.index(True)]
    jax.effects_barrier()
    assert capfd.readouterr().out == "in the call\n"


def test_a_mesh_that_was_set_before_stays_set():
    def sets_another(x):
        jax.set_mesh(Mesh(jax.devices()[:2], ("b",)))
        return x

    with jax.set_mesh(Mesh(jax.devices()[:4], ("a",))):
        before = jax.sharding.get_abstract_mesh()
        observe(sets_another, X, traced=True)
        assert jax.sharding.get_abstract_mesh() == before
    assert jax.sharding.get_abstract_mesh().empty


def test_code_that_swallows_errors_is_traced_inside_of_its_mesh():
    mesh = Mesh(jax.devices()[:4], ("a",))

    def tries(x):
        with contextlib.suppress(Exception), jax.set_mesh(mesh):
            return jax.device_put(x, P("a"))
        return x

    seen = observe(tries, X, traced=True)
    assert seen.refused == "" and len(seen.layout[""]) == 4


def test_code_that_jax_traces_is_called_with_shapes_alone():
    with pytest.raises(Untraceable, match="ConcretizationTypeError"):
        tracing.exported(lambda x: float(x[0, 0]), [X])
    program, result = tracing.exported(lambda x, y: [jnp.sin(y), 3], [X, X[:2]])
    assert result[1] == 3 and program.module_kept_var_idx == (0, 1)


def test_donated_arrays_are_those_that_the_program_takes_over():
    def step(state, x):
        return jax.tree.map(lambda leaf: leaf + x.sum(), state)

    def deletes(state, x):
        new = jax.jit(step)(state, x)
        if not isinstance(x, jax.core.Tracer):
            jax.tree.map(lambda leaf: leaf.delete(), state)
        return new

    def in_two(state, x):  # what lies between donates, too
        new = jax.jit(step)(state, x)
        return jax.jit(lambda old, new: new, donate_argnums=(0, 1))(state, new)

    state = {"a": jnp.ones(3), "b": [jnp.ones((8, 2)), jnp.zeros(())]}
    placed = jax.device_put(state, NamedSharding(Mesh(jax.devices(), "x"), P()))
    for arguments in ((state, X), (placed, X)):
        assert tracing.num_donated(jax.jit(step, donate_argnums=0), *arguments) == 3
        assert tracing.num_donated(jax.jit(step), *arguments) == 0
        assert tracing.num_donated(deletes, *arguments) == 0
        assert tracing.num_donated(in_two, *arguments) == 3
