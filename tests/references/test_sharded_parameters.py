"""Parameters are sharded by specs alone: `loss` is written as for one device."""

import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
pytest.importorskip("orbax.checkpoint")

import pipeline_step
import pipeline_tasks
from pipeline_step import Config, prepare

from coursekit.plan import plan

pytestmark = pytest.mark.usefixtures("usual_promotion")


class Layered(pipeline_step.Task):
    """Uses parameters in all ways at once: a loop, a scan, remat, a tied matrix."""

    specs = {  # noqa: RUF012
        "tied": P("model", "data"),
        "layers/*": P("data", "model"),
        "stack": P(None, "data", "model"),
        "b": P("data"),
    }

    def load(self):
        x = np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)
        return ({"x": x},) * 2

    def init(self, key):
        keys = iter(jax.random.split(key, 9))

        def draw(*shape):
            return jax.random.normal(next(keys), shape) / 4

        layers = [draw(16, 16), draw(16, 16)]
        return {
            "tied": draw(16, 16),
            "layers": layers,
            "stack": draw(3, 16, 16),
            "b": draw(16),
        }

    def loss(self, params, batch, key, step):
        @jax.checkpoint
        def layer(h, w):
            return jnp.tanh(h @ w.astype(jnp.float32)), None

        h = jnp.einsum("bi,ij->bj", batch["x"], params["tied"])
        for w in params["layers"]:
            h = jax.nn.relu(h @ w) + params["b"]
        low = params["stack"].astype(jnp.bfloat16)
        h, _ = jax.lax.scan(layer, h, low)
        out = jnp.where(h > 0, h, 0.1 * h) @ params["tied"].T
        losses = ((out - batch["x"]) ** 2).sum(1) + 1e-3 * (params["b"] ** 2).sum()
        return losses, jnp.ones(len(losses)), {"size": jnp.abs(out).mean(1)}


def prepared(monkeypatch, kind, changes=None, **settings):
    monkeypatch.setattr(pipeline_step, "make_task", type("K", (kind,), changes or {}))
    more = {"schedule_steps": 100, "compute_dtype": "float32", "steps_per_call": 2}
    return prepare(Config("unused", num_steps=100, **more | settings))


def stepped(run):
    batch = jax.tree.map(
        lambda rows, leaf: jax.device_put(
            np.stack([rows, rows]).reshape(leaf.shape), leaf.sharding
        ),
        run.train,
        run.batch,
    )
    state, metrics = run.step(run.init(), batch)
    return jax.tree.map(np.asarray, (state["params"], metrics))


@pytest.mark.parametrize(
    "settings",
    [{}, {"mesh": {"data": 4, "model": 2}}, {"num_microbatches": 2}],
    ids=["data=8", "data=4, model=2", "microbatches"],
)
def test_sharded_parameters_train_like_replicated_ones(settings, monkeypatch):
    sharded = stepped(prepared(monkeypatch, Layered, **settings))
    replicated = stepped(prepared(monkeypatch, Layered, {"specs": {}}, **settings))
    for one, two in zip(*map(jax.tree.leaves, (sharded, replicated)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_a_stack_that_is_cast_first_is_gathered_one_layer_at_a_time(monkeypatch):
    run = prepared(monkeypatch, Layered)
    text = run.step.lower(run.state, run.batch).as_text()
    gathered = re.findall(r"all_gather.*-> tensor<(\w+)>", text)
    assert gathered and not [shape for shape in gathered if shape.startswith("3x16")]


def test_weights_are_gathered_along_the_data_axis_alone(monkeypatch):
    run = prepared(monkeypatch, Layered, mesh={"data": 4, "model": 2}, batch_size=8)
    found = plan(run.step, run.state, run.batch)
    gathered = [one for one in found.sent if one.kind == "all-gather"]
    weights = [one for one in gathered if "pipeline_step" in one.source]
    matrices = [one for one in weights if "," in one.array]
    assert {one.axes for one in matrices} == {("data",)}, matrices


class Sharded(pipeline_tasks.Digits):
    """Digits, fully sharded."""

    specs = {"w*": P("data"), "b1": P("data"), "b2": P("data")}  # noqa: RUF012


def test_a_device_holds_an_eighth(monkeypatch):
    held = []
    for kind in (pipeline_tasks.Digits, Sharded):
        specs = {} if kind is not Sharded else Sharded.specs
        settings = {"hidden": 256, "steps_per_call": 1, "batch_size": 64}
        run = prepared(monkeypatch, kind, {"specs": specs}, **settings)
        memory = run.step.lower(run.state, run.batch).compile().memory_analysis()
        held.append(memory.argument_size_in_bytes)
    assert 7.5 < held[0] / held[1] < 8, held
