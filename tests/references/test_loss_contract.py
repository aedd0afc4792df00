"""A task that does not keep its contract is named before any step, with the remedy."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
pytest.importorskip("orbax.checkpoint")

import pipeline_step
from pipeline_step import Config, RunError, Task, prepare

pytestmark = pytest.mark.usefixtures("usual_promotion")


class Line(Task):
    """Fits a line to 64 points: each case changes one part of it."""

    def load(self):
        x = np.arange(64, dtype=np.float32)
        return ({"x": x, "y": 2 * x},) * 2

    def init(self, key):
        return {"w": jnp.zeros((8, 8))}

    def loss(self, params, batch, key, step):
        losses = (batch["x"] * params["w"].sum() - batch["y"]) ** 2
        return losses, jnp.ones(len(losses)), {}


def returning(change):
    """A task whose `loss` returns something else."""

    def loss(self, params, batch, key, step):
        return change(*Line.loss(self, params, batch, key, step))

    return {"loss": loss}


def loading(data):
    return {"load": lambda self: data}


def starting(params):
    return {"init": lambda self, key: params}


def numbers():
    yield np.zeros(4)


ROWS = {"x": np.zeros(64, np.float32), "y": np.zeros(64, np.float32)}
BATCHES = [{"x": np.zeros(64), "y": np.zeros(64)}] * 3
LOSS = {
    "one value": (returning(lambda losses, *_: losses.mean()), ["one value", "3 are"]),
    "two values": (returning(lambda losses, w, _: (losses, w)), ["returns 2 where 3"]),
    "four values": (returning(lambda *all: (*all, 0)), ["returns 4 where 3"]),
    "a mean": (
        returning(lambda losses, w, m: (losses.mean(), w, m)),
        ["'losses' of shape [] for 64 rows", "one value a row"],
    ),
    "tokens": (
        returning(lambda losses, w, m: (losses[:, None] * jnp.ones(9), w, m)),
        ["'losses' of shape [64, 9]", "summed over a row's tokens"],
    ),
    "one weight": (
        returning(lambda losses, w, m: (losses, w.sum(), m)),
        ["'weights' of shape []"],
    ),
    "a scalar metric": (
        returning(lambda losses, w, m: (losses, w, {"right": losses.mean()})),
        ["'right' of shape []"],
    ),
    "no dict": (
        returning(lambda losses, w, m: (losses, w, losses)),
        ["metrics of type", "return a dict"],
    ),
    "counted losses": (
        returning(lambda losses, w, m: (losses.astype(int), w, m)),
        ["losses of int32", "float32"],
    ),
    **{
        f"a metric named {name}": (
            returning(lambda losses, w, m, name=name: (losses, w, {name: losses})),
            [f"named {name!r}", "another name"],
        )
        for name in ("weight", "loss", "step", "grad_norm", "learning_rate")
    },
}
DATA = {
    "no pair": (loading(ROWS), ["load returns a dict", "a pair"]),
    "a generator": (loading((numbers(), None)), ["'generator'", "get_state"]),
    "batches": (loading((BATCHES, None)), ["list of 3 trees", "join them"]),
    "lists": (loading(({"x": [0.0] * 64}, None)), ["'float' as rows of 'x", "arrays"]),
    "text": (loading((np.array(["a"] * 64), None)), ["'ndarray'", "numeric arrays"]),
    "a number": (loading((np.float32(3), None)), ["'float32'", "first axis"]),
    "nothing": (loading((None, None)), ["'NoneType'"]),
    "held-out stream": (loading((ROWS, numbers())), ["'generator'"]),
    "held-out lists": (loading((ROWS, [1.0, 2.0])), ["'float'", "arrays"]),
}
PARAMS = {
    "bfloat16": (starting({"w": jnp.zeros(8, jnp.bfloat16)}), ["'w' bfloat16", "cast"]),
    "int": (starting({"n": jnp.zeros((), int)}), ["'n' int32", "`mutable`"]),
}
SPECS = {
    "unknown axis": ({"specs": {"w": P("rows")}}, ["no axis 'rows'", "data, model"]),
    "unknown in a tuple": ({"specs": {"w": P(("data", "x"))}}, ["no axis 'x'"]),
    "longer than the rank": ({"specs": {"w": P(None, None, "data")}}, ["has 2 axes"]),
    "twice": ({"specs": {"w": P("data", "data")}}, ["for w", "twice"]),
    "a width that does not divide": (
        {"specs": {"w": P(("data", "model"))}, **starting({"w": jnp.zeros(12)})},
        ["12 of w do not divide by 8 devices along data x model"],
    ),
}
CASES = LOSS | DATA | PARAMS | SPECS


def prepared(monkeypatch, changes, **settings):
    kind = type("Changed", (Line,), changes)
    monkeypatch.setattr(pipeline_step, "make_task", kind)
    settings = {"mesh": {"data": 4, "model": 2}, **settings}
    return prepare(Config("unused", num_steps=100, **settings))


@pytest.mark.parametrize(("changes", "named"), CASES.values(), ids=CASES.keys())
def test_what_does_not_fit_is_named_before_any_step(changes, named, monkeypatch):
    with pytest.raises(RunError) as error:
        prepared(monkeypatch, changes)
    assert all(text in str(error.value) for text in named), error.value


def test_what_only_an_evaluation_returns_is_checked_too(monkeypatch):
    def loss(self, params, batch, key, step):
        losses, weights, _ = Line.loss(self, params, batch, key, step)
        return losses if key is not None else losses.mean(), weights, {}

    with pytest.raises(RunError, match=r"'losses' of shape \[\]"):
        prepared(monkeypatch, {"loss": loss})


OPTIMIZERS = {
    "a line search": (lambda: optax.lbfgs(0.1), "value_fn.*linesearch=None"),
    "a Hessian": (lambda: optax.contrib.sophia(0.1), "needs more than .* obj_fn"),
    "parameters of its own": (
        lambda: optax.lookahead(optax.sgd(0.1), 5, 0.5),
        "needs more than .*'fast'",
    ),
    "a gradient of each row": (
        lambda: optax.contrib.differentially_private_aggregate(
            1.0, 0.1, key=jax.random.key(0)
        ),
        "updates of other shapes .* a gradient of each row",
    ),
}


@pytest.mark.parametrize(("make", "named"), OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_an_optimizer_that_needs_what_is_not_there_is_refused(make, named, monkeypatch):
    with pytest.raises(RunError, match=named):
        prepared(monkeypatch, {"optimizer": lambda self: make()})


def test_mutable_comes_back_as_it_was(monkeypatch):
    def loss(self, params, batch, key, step, mean):
        return (*Line.loss(self, params, batch, key, step), mean.astype(jnp.bfloat16))

    changes = {"loss": loss, "mutable": lambda self: (jnp.zeros(3),)}
    with pytest.raises(RunError, match="`mutable` of other shapes, dtypes or names"):
        prepared(monkeypatch, changes)


def test_tuples_of_axes_and_axis_rules_shard(monkeypatch):
    both = {"specs": {"w": P(("data", "model"))}}
    state = prepared(monkeypatch, both).state["params"]["w"]
    assert state.sharding.shard_shape(state.shape) == (1, 8)
    rules = (("rows", "model"), ("rows", "data"), ("columns", "data"))
    ruled = {"axes": {"w": ("rows", "columns")}, "rules": rules}
    state = prepared(monkeypatch, ruled).state["params"]["w"]
    assert state.sharding.spec == P("model", "data")


def test_nothing_is_on_a_device_before_the_first_step(monkeypatch):
    run = prepared(monkeypatch, {"specs": {"w": P("data")}})
    leaves = jax.tree.leaves((run.state, run.batch))
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)
    assert run.step.lower(run.state, run.batch).as_text()
