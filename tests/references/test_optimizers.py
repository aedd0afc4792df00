"""Any optimizer of Optax begins and resumes with any specs, to the bit."""

import os
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
from full_pipeline import Config, Task, fit

pytestmark = pytest.mark.usefixtures("usual_promotion")


def plateau(rate):
    return optax.chain(optax.adam(rate), optax.contrib.reduce_on_plateau(patience=1))


def two_kinds(rate):
    kinds = {"slow": optax.sgd(rate), "fast": optax.adam(rate)}
    return optax.multi_transform(kinds, {"w": "fast", "b": "slow", "e": "fast"})


def accumulated(rate):
    return optax.MultiSteps(optax.adam(rate), 2)


def mechanized(rate):
    return optax.contrib.mechanize(optax.adam(rate))


def sharpness_aware(rate):
    away = optax.chain(optax.contrib.normalize(), optax.sgd(0.05))
    sam = optax.contrib.sam(optax.sgd(rate), away)
    return optax.GradientTransformation(sam.init, sam.update)  # takes no loss


RATED = """adabelief adadelta adafactor adagrad adam adamax adamaxw adamw adan amsgrad
fromage lamb lars lbfgs lion nadam nadamw noisy_sgd novograd
optimistic_gradient_descent optimistic_adam_v2 polyak_sgd radam rmsprop rprop sgd
sign_sgd signum sm3 yogi""".split()
OF_CONTRIB = """acprop ademamix adopt cocob dadapt_adamw dog dowg galore madgrad momo
momo_adam muon prodigy schedule_free_adamw schedule_free_sgd simplified_ademamix
""".split()
OPTIMIZERS = {
    "plateau": plateau,
    "multi_transform": two_kinds,
    "MultiSteps": accumulated,
    "mechanize": mechanized,
    "sam": sharpness_aware,
}
OPTIMIZERS |= {name: getattr(optax, name) for name in RATED if hasattr(optax, name)}
OPTIMIZERS |= {
    name: getattr(optax.contrib, name)
    for name in OF_CONTRIB
    if hasattr(optax.contrib, name)
}
NEED_MORE = {
    "lars": {"weight_decay": 1e-4},
    "noisy_sgd": {"key": 0},
    "polyak_sgd": {"max_learning_rate": 1e-2},
    "lbfgs": {"learning_rate": 1e-2, "linesearch": None},
}
WITHOUT_RATE = {"polyak_sgd", "lbfgs"}
SAMPLE = ["plateau", "multi_transform", "adafactor", "muon"]
CHOSEN = sorted(OPTIMIZERS) if os.environ.get("OPTIMIZERS") == "all" else SAMPLE


class Perceptron(Task):
    """Sharded over both axes; a parameter's shape is another one's, too."""

    specs = {"w": P("data", "model"), "e": P(None, "model")}  # noqa: RUF012

    def load(self):
        x = np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)
        return ({"x": x, "y": x[:, :1]},) * 2

    def init(self, key):
        one, two = jax.random.split(key)
        w = jax.random.normal(one, (16, 16)) / 4
        return {"w": w, "b": jnp.zeros(16), "e": jax.random.normal(two, (16, 16)) / 4}

    def loss(self, params, batch, key, step):
        hidden = jnp.tanh(batch["x"] @ params["w"] + params["b"]) @ params["e"]
        losses = ((hidden[:, :1] - batch["y"]) ** 2).sum(1)
        return losses, jnp.ones(len(losses)), {}


@pytest.mark.parametrize("name", CHOSEN)
def test_an_optimizer_begins_and_resumes_on_a_mesh_of_two_axes(
    name, tmp_path, monkeypatch
):
    more = NEED_MORE.get(name, {})
    given = (() if name in WITHOUT_RATE else (1e-2,)), more

    def optimizer(self):
        return OPTIMIZERS[name](*given[0], **given[1])

    kind = type("Own", (Perceptron,), {"optimizer": optimizer})
    monkeypatch.setattr(pipeline_step, "make_task", kind)

    def run(folder, num_steps):
        settings = {"num_steps": num_steps, "steps_per_call": 2, "save_every": 2}
        settings |= {"eval_every": 0, "mesh": {"data": 4, "model": 2}}
        settings |= {"schedule_steps": 100}
        return fit(Config(str(tmp_path / folder), **settings), progress=False)

    whole = run("whole", 4)
    assert np.isfinite(whole["losses"]).all()
    run("halves", 2)
    halves = run("halves", 4)
    for leaf, other in zip(
        jax.tree.leaves(whole["params"]), jax.tree.leaves(halves["params"]), strict=True
    ):
        np.testing.assert_array_equal(leaf, other)
    assert halves["losses"] == whole["losses"][2:]
    shapes = {s.data.shape for s in whole["params"]["w"].addressable_shards}
    assert shapes == {(4, 8)}
