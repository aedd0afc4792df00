"""The language model trains alike on any mesh and goes on bit for bit."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
pytest.importorskip("orbax.checkpoint")

import pipeline_step
import pipeline_transformer
from full_pipeline import Config, fit
from pipeline_transformer import LETTERS, Transformer

SMALL = {
    "task": "transformer",
    "hidden": 16,
    "batch_size": 16,
    "num_steps": 20,
    "save_every": 10,
    "compute_dtype": "float32",
    "schedule_steps": 1000,
}


@pytest.fixture(autouse=True)
def usual_promotion():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def run(directory, **settings):
    return fit(Config(str(directory), **SMALL | settings), progress=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run on eight devices that nothing interrupted: (directory, result)."""
    folder = tmp_path_factory.mktemp("whole")
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return folder, run(folder)


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


def state_on(*sizes, hidden=16):
    """The abstract state and the step's program on a mesh."""
    types = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh(sizes, ("data", "model"), axis_types=types)
    task = pipeline_step.make_task(Config("unused", **SMALL | {"hidden": hidden}))
    return task, mesh, pipeline_step.first_state(task, mesh)[1]


@pytest.mark.parametrize(
    "mesh", [{"data": 1}, {"data": 4, "model": 2}, {"data": 1, "model": 8}], ids=str
)
def test_losses_are_the_same_on_every_mesh(mesh, whole, tmp_path):
    losses = run(tmp_path, mesh=mesh)["losses"]
    np.testing.assert_allclose(losses, whole[1]["losses"], rtol=1e-3)
    assert losses[-1] < losses[0] - 0.5


def test_a_run_goes_on_with_the_same_bits(whole, tmp_path):
    run(tmp_path, num_steps=10)
    assert same(run(tmp_path)["params"], whole[1]["params"])


def test_a_checkpoint_is_restored_on_another_mesh(whole):
    folder, result = whole
    again = run(folder, mesh={"data": 2, "model": 2})
    assert again["losses"] == [] and same(again["params"], result["params"])


@pytest.mark.parametrize("after", ["metrics", "checkpoint"])
def test_a_killed_run_ends_bit_for_bit_like_one_that_was_not(
    after, whole, tmp_path, kill_a_run
):
    kill_a_run(tmp_path, SMALL, after, 10)
    assert same(run(tmp_path)["params"], whole[1]["params"])


def test_two_processes_go_on_like_one(whole, tmp_path):
    settings = {f"--{k.replace('_', '-')}": str(v) for k, v in SMALL.items()}
    options = [*sum(settings.items(), ()), "--directory", str(tmp_path)]
    script = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--quiet"]
    line = [*script, *options, "--processes", "2"]
    line += ["--start-from", f"{whole[0]}/checkpoints/10", "--eval-batches=2"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "held-out loss" in done.stdout and "\nada " in done.stdout
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    np.testing.assert_allclose(losses, whole[1]["losses"][10:], rtol=1e-3)


def test_every_large_array_is_split_over_both_axes():
    _, _, state = state_on(4, 2, hidden=32)
    shapes = {
        name: leaf.sharding.shard_shape(leaf.shape)
        for name, leaf in state["params"].items()
    }
    assert shapes["qkv"] == (4, 8, 3, 4, 4)  # of (4, 32, 3, 8, 4)
    assert shapes["out"] == (4, 4, 4, 8)
    assert (shapes["up"], shapes["down"]) == ((4, 8, 64), (4, 64, 8))
    assert shapes["letters"] == (len(LETTERS), 8)
    moments = state["opt_state"][1][0].mu
    assert {n: m.sharding for n, m in moments.items()} == {
        n: p.sharding for n, p in state["params"].items()
    }


def test_weights_are_gathered_one_layer_at_a_time():
    task, mesh, state = state_on(8, 1, hidden=64)
    call = pipeline_step.make_train_step(task, mesh)
    x = jax.ShapeDtypeStruct((1, 1, 16, 64), "int32")
    text = call.lower(state, (x, x)).compile().as_text()
    assert "f32[64,3,8,8]" in text and "f32[4,64,3,8,8]" not in text
    assert " reduce-scatter(" in text


def test_bfloat16_multiplies_and_float32_is_kept(whole, tmp_path):
    result = run(tmp_path, compute_dtype="bfloat16")
    np.testing.assert_allclose(result["losses"], whole[1]["losses"], rtol=0.02)
    assert {leaf.dtype for leaf in result["params"].values()} == {np.dtype("float32")}


def test_activations_are_computed_again_not_kept(monkeypatch):
    task = Transformer(Config("unused", **SMALL | {"hidden": 64}))
    params = task.init(jax.random.key(0))
    x = jnp.zeros((16, 64), jnp.int32)

    def loss(params):
        return task.logits(params, x).mean()

    def temporaries():
        program = jax.jit(jax.grad(loss)).lower(params).compile()
        return program.memory_analysis().temp_size_in_bytes

    with_checkpoint = temporaries()
    monkeypatch.setattr(jax, "checkpoint", lambda f: f)
    assert temporaries() > 1.5 * with_checkpoint


def test_the_floor_is_what_a_text_holds():
    letters = pipeline_transformer.corpus(200_000, seed=3)
    text = "".join(LETTERS[place] for place in letters)
    choices = np.prod([len(row) for row in pipeline_transformer.WORDS])
    measured = text.count(". ") * np.log(choices) / len(text)
    assert pipeline_transformer.entropy_floor() == pytest.approx(measured, rel=0.01)
    assert np.array_equal(letters, pipeline_transformer.corpus(200_000, seed=3))
    assert set(text) == set(LETTERS)


def test_no_letter_knows_those_behind_it():
    task = Transformer(Config("unused", **SMALL))
    params, rng = task.init(jax.random.key(0)), np.random.default_rng(0)
    x = rng.integers(0, len(LETTERS), (2, 64))
    other = np.where(np.arange(64) < 40, x, 0)
    one, two = (task.logits(params, jnp.array(a)) for a in (x, other))
    np.testing.assert_allclose(one[:, :40], two[:, :40], atol=1e-5)
    assert not np.allclose(one[:, 40:], two[:, 40:], atol=1e-2)


def test_a_text_longer_than_a_row_is_the_seed_s():
    task = Transformer(Config("unused", **SMALL))
    params = task.init(jax.random.key(0))

    def run(f):
        return np.asarray(f(params))

    text = task.write(run, "ada ", 100, seed=1)
    assert len(text) == 104 and text.startswith("ada ")
    assert text == task.write(run, "ada ", 100, seed=1)
    assert text != task.write(run, "ada ", 100, seed=2)


def test_the_benchmark_of_plans_measures_this_model():
    from tools.benchmarks.plan_accuracy import transformer_step

    step, shapes = transformer_step(width=64, layers=2, row=16, rows=2)
    state, loss = jax.eval_shape(step, *shapes)
    assert loss.shape == () and state["params"]["up"].shape[0] == 2


def test_the_trainer_knows_the_peak_of_each_chip_that_can_be_planned_for():
    from coursekit.plan import CHIPS

    peaks = {kind: chip.flops for chip in CHIPS.values() for kind in chip.kinds}
    assert peaks.items() <= pipeline_step.PEAK_FLOPS.items()
