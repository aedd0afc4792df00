"""A notebook and the grader observe the same of an answer, in each idiom of JAX."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from idioms import (
    CASES,
    TRACED,
    UNTRACED,
    X,
    device_put_to_a_mesh,
    devices_reversed,
    last_devices,
)
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.observation import leaves, same
from coursekit.observe import observe
from grader.judging.observer import Observer, Remote
from grader.kernel.inside import responder

FACTS = ("layout", "error", "refused", "collectives", "array_shapes", "dtypes", "flops")
WAYS = {
    "called": {},
    "traced": {"traced": True},
    "compiled": {"compiled": True},
}


def graded(function, *arguments, **how):
    """Observes a function as a judge does; what crosses the line is text."""

    def ask(question):
        question = json.loads(json.dumps(question))
        return {"answer": json.dumps(responder.reply(question, {"f": function}))}

    return Observer(ask).observe(Remote("f"), *arguments, **how)


def expect_the_same(function, *arguments, **how):
    here = observe(function, *arguments, **how)
    there = graded(function, *arguments, **how)
    for fact in (*FACTS, "changed"):
        assert (fact, getattr(there, fact)) == (fact, getattr(here, fact))
    pairs = list(zip(leaves(there.value), leaves(here.value), strict=True))
    for (path, theirs), (own_path, ours) in pairs:
        if isinstance(ours, np.ndarray) and ours.dtype.kind == "f":
            np.testing.assert_allclose(theirs, ours, rtol=1e-5)
            assert (theirs.dtype, theirs.shape) == (ours.dtype, ours.shape)
            theirs = ours
        assert path == own_path and same(theirs, ours)
    return there


def in_all_ways(cases):
    """Lists cases, by name, with each way of observing: by turns one of these is quick.

    The others are for `make test-slow`.
    """
    return [
        pytest.param(
            case,
            how,
            id=f"{name}-{way}",
            marks=() if (turn + number) % len(WAYS) == 0 else pytest.mark.slow,
        )
        for number, (name, case) in enumerate(cases.items())
        for turn, (way, how) in enumerate(WAYS.items())
    ]


IDIOMS = {one.__name__: one for one in (*TRACED, *UNTRACED)}


@pytest.mark.parametrize(("idiom", "how"), in_all_ways(IDIOMS))
def test_a_right_answer_is_observed_alike(idiom, how):
    for case in [*CASES.values()][-1 if "compiled" in how else 0 :]:
        seen = expect_the_same(idiom, *case, **how)
        assert seen.error is None
        assert (seen.array_shapes is None) == (idiom in UNTRACED or not how)


ROWS = Mesh(np.array(jax.devices()), ("rows",))


def mean_loss(w, x):
    return jax.lax.pmean(jnp.sum((w[None] * x) ** 2), "rows")


def gradient(w, x):  # nobody uses the mean itself
    specs = {"in_specs": (P(), P("rows")), "out_specs": P()}
    return jax.shard_map(jax.grad(mean_loss), mesh=ROWS, **specs)(w, x)


def donates(w, x):
    return jax.jit(lambda w, x: jnp.sin(w) + x[0], donate_argnums=0)(w, x)


@jax.jit
def placed_in_jit(x):
    jax.debug.print("once")
    place = NamedSharding(ROWS, P("rows"))
    return jax.device_put(x + 1, place), jnp.zeros(8, device=place)


OTHERS = {
    "in a jit that is kept": (placed_in_jit, X),
    "a collective that nobody uses": (gradient, X[0], X),
    "donated": (donates, jnp.asarray(X[0]), X),
    "an input without use": (lambda x, y: jnp.sin(y), X, X[:3]),
    "no array": (lambda x: len(x), X),
    "erf and gelu": (lambda x: jax.nn.gelu(x, approximate=False), X),
    "top": (lambda x: jax.lax.top_k(jnp.asarray(x), 2), X),
    "keys": (lambda key: jax.random.split(key, 8), jax.random.key(0)),
    "an error": (lambda x: x @ x, X),
    "a read-only mapping": (
        lambda x: type(vars(int))({"x": jnp.sin(x), "of": {"n": 3}}),
        X,
    ),
    "asks the host": (
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
        X,
    ),
}


@pytest.mark.parametrize(("case", "how"), in_all_ways(OTHERS))
def test_any_answer_is_observed_alike(case, how):
    expect_the_same(*case, **how)


@pytest.mark.parametrize("traced", [False, True])
def test_a_donated_argument_is_told_from_one_that_is_read(traced):
    seen = graded(donates, jnp.asarray(X[0]), X, traced=traced)
    assert (seen.error, seen.changed) == (None, (0,))


def test_a_collective_that_nobody_uses_does_not_count():
    [one] = graded(gradient, X[0], X, traced=True).collectives
    assert (one.kind, one.shape) == ("all-reduce", (1, 16))


def test_a_mesh_of_other_devices_is_not_taken_for_one_of_the_first():
    order = (device_put_to_a_mesh, devices_reversed, last_devices)
    seen = [graded(idiom, *CASES["4 devices"], traced=True) for idiom in order]
    devices = [[piece.device for piece in one.layout[""]] for one in seen]
    assert devices == [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]]
    assert seen[0].layout != seen[1].layout


def debugs(x):
    def show(value):
        jax.debug.print("{}", value)
        jax.debug.callback(lambda one: None, value)
        return jnp.sin(value)

    jax.debug.inspect_array_sharding(x, callback=print)
    jax.debug.visualize_array_sharding(x)
    return jax.jit(jax.vmap(jax.vmap(show)))(x)


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("axis", [None, "rows"])
def test_debugging_costs_nothing(how, axis):
    x = np.ones((8, 100, 100), np.float32)[:: 1 if axis else 8].squeeze()
    seen = graded(debugs, x, axis=axis, **how)
    assert (seen.error, seen.refused) == (None, "")
    np.testing.assert_allclose(seen.value, np.sin(x), rtol=1e-5)
