"""Nothing of a run is lost in silence: two runs at once, NaN, damage, other code."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
pytest.importorskip("orbax.checkpoint")

import full_pipeline
import pipeline_step
from full_pipeline import Config, RunError, Task, fit
from jax.sharding import PartitionSpec as P

pytestmark = pytest.mark.usefixtures("usual_promotion")
SETTINGS = {
    "num_steps": 8,
    "steps_per_call": 2,
    "save_every": 2,
    "eval_every": 4,
    "batch_size": 16,
    "schedule_steps": 1000,
    "compute_dtype": "float32",
}


class Small(Task):
    """Fits rows, of which `bad` are not finite."""

    bad = 0
    held = True
    scale = 1.0
    specs = {"w": P("data")}  # noqa: RUF012

    def load(self):
        x = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
        x[: self.bad] = np.nan
        clean = np.nan_to_num(x)
        return {"x": x}, {"x": clean[:40]} if self.held else None

    def init(self, key):
        return {"w": jax.random.normal(key, (8, 16)), "b": jnp.zeros(16)}

    def loss(self, params, batch, key, step):
        made = batch["x"] @ params["w"] + params["b"]
        losses = self.scale * ((made[:, :8] - batch["x"]) ** 2).sum(1)
        return losses, jnp.ones(len(losses)), {}


@pytest.fixture
def run(monkeypatch):
    """Trains `Small`, some of whose attributes are others."""

    def run(folder, changes=None, progress=False, **settings):
        kind = type("Changed", (Small,), changes or {})
        monkeypatch.setattr(pipeline_step, "make_task", kind)
        return fit(Config(str(folder), **SETTINGS | settings), progress=progress)

    return run


def lines(folder, name="metrics"):
    text = (folder / f"{name}.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text
    return [json.loads(line) for line in text.splitlines()]


def checkpoints(folder):
    return sorted(int(path.name) for path in (folder / "checkpoints").iterdir())


HOLDS = """
import sys, time
from pathlib import Path
sys.path.append({references!r})
import full_pipeline
with full_pipeline.locked(Path({folder!r})):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_second_run_in_a_directory_is_refused_until_the_first_is_gone(run, tmp_path):
    folder = tmp_path / "run"
    program = HOLDS.format(references=str(REFERENCES), folder=str(folder))
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(
            RunError, match=f"in use by process {other.pid} on"
        ) as error:
            run(folder)
        assert "--directory" in str(error.value) and "--seed" in str(error.value)
        assert [path.name for path in folder.iterdir()] == ["lock"]
    finally:
        other.kill()
        other.communicate()
    assert run(folder, num_steps=2)["step"] == 2
    assert not (folder / "lock").exists()


def test_a_folder_that_cannot_be_locked_is_used_and_said(tmp_path, capsys, monkeypatch):
    import fcntl

    def refused(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "lockf", refused)
    with full_pipeline.locked(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()
    assert "cannot be locked (Function not implemented)" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


class Poison:
    """Makes the loss NaN at some steps of a run."""

    def __init__(self, *steps):
        self.steps = steps

    def __get__(self, task, kind=None):
        def loss(params, batch, key, step):
            losses, weights, metrics = Small.loss(task, params, batch, key, step)
            if key is not None:
                for bad in self.steps:
                    losses = jnp.where(step == bad - 1, jnp.nan, losses)
            return losses, weights, metrics

        return loss


def test_a_run_stops_at_a_nan_and_keeps_its_last_finite_checkpoint(run, tmp_path):
    with pytest.raises(RunError) as error:
        run(tmp_path, {"loss": Poison(5)}, keep=1)
    text = str(error.value)
    assert text.startswith("Step 5: the loss is nan")
    assert f"The last finite checkpoint: {tmp_path}/checkpoints/4." in text
    assert "--on-nan skip" in text and f"--start-from {tmp_path}/checkpoints/4" in text
    assert checkpoints(tmp_path) == [4]
    assert [line["loss"] is None for line in lines(tmp_path)] == [False] * 4 + [True]


def test_parameters_that_are_not_finite_are_never_saved(run, tmp_path):
    def optimizer(self):
        def update(updates, state, params=None):
            bad = state == 3
            return jax.tree.map(
                lambda u: jnp.where(bad, jnp.nan, u), updates
            ), state + 1

        return optax.GradientTransformation(lambda params: jnp.int32(0), update)

    with pytest.raises(RunError, match="After step 4 the parameters are not finite"):
        run(tmp_path, {"optimizer": optimizer})
    assert checkpoints(tmp_path) == [2]


def test_a_step_that_is_not_finite_is_left_out_on_request(run, tmp_path, capsys):
    result = run(tmp_path, {"loss": Poison(5)}, on_nan="skip", ema=0.5)
    assert "Step 5: the loss is nan" in capsys.readouterr().out
    assert np.isfinite(np.asarray(result["params"]["w"])).all()
    assert [line["loss"] is None for line in lines(tmp_path)].index(True) == 4
    with pytest.raises(RunError, match="10 steps in a row were left out"):
        run(tmp_path / "all", {"bad": 64}, on_nan="skip", num_steps=20)


def test_a_spike_of_the_gradient_is_said(run, tmp_path, capsys):
    def loss(self, params, batch, key, step):
        losses, weights, metrics = Small.loss(self, params, batch, key, step)
        return losses * jnp.where(step == 29, 1e4, 1.0), weights, metrics

    run(tmp_path, {"loss": loss}, num_steps=32, steps_per_call=4, save_every=32)
    said = capsys.readouterr().out
    assert "Step 30: the gradient's norm is" in said and "times its median" in said


def test_checkpoints_need_no_file_that_holds_metrics(run, tmp_path):
    run(tmp_path)
    assert not [*tmp_path.rglob("metrics/metrics")]
    (tmp_path / "evaluations.jsonl").write_text('{"step": 4, "loss": 1.0}\n{"ste')
    assert run(tmp_path)["losses"] == []


def test_a_flipped_bit_is_found(run, tmp_path, monkeypatch):
    run(tmp_path)
    read = full_pipeline.checksums

    def flipped(state):
        leaves = dict(state)
        if "params/w" in leaves:
            bits = jax.lax.bitcast_convert_type(leaves["params/w"], jnp.uint32)
            bits = bits.at[3, 5].set(bits[3, 5] ^ 1)
            leaves["params/w"] = jax.lax.bitcast_convert_type(bits, jnp.float32)
        return read(leaves)

    monkeypatch.setattr(full_pipeline, "checksums", flipped)
    with pytest.raises(
        RunError, match=r"8 in .* cannot be read: .*params/w: the check"
    ):
        run(tmp_path, num_steps=10)


def test_a_checksum_is_the_same_for_every_sharding_and_knows_every_bit():
    mesh = jax.make_mesh(
        (4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2
    )
    x = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    trees = [
        {"x": jax.device_put(x, jax.NamedSharding(mesh, spec))}
        for spec in (P(), P("data"), P("data", "model"), P(("data", "model")))
    ]
    [found] = {full_pipeline.checksums(tree)["x"] for tree in trees}
    for other in (x[::-1], x[:, ::-1], np.zeros_like(x)):
        assert int(full_pipeline.checksum(jnp.asarray(other))) != found
    for dtype in ("bfloat16", "int32", "uint8", "bool"):
        assert full_pipeline.checksum(jnp.ones(3, dtype)).dtype == jnp.uint32


def test_parameters_begin_a_run_with_other_settings(run, tmp_path, capsys):
    first = run(tmp_path / "one")
    settings = {"start_from": f"{tmp_path}/one/checkpoints/8", "ema": 0.9}
    again = run(
        tmp_path / "two", {"scale": 2.0}, **settings, batch_size=32, peak_lr=1e-9
    )
    said = capsys.readouterr().out
    assert "Beginning with the parameters of checkpoint 8" in said
    assert "batch_size=16 there, 32 here" in said
    assert len(again["losses"]) == 8
    np.testing.assert_allclose(again["params"]["w"], first["params"]["w"], atol=1e-5)
    assert (
        run(tmp_path / "two", {"scale": 2.0}, **settings, batch_size=32, peak_lr=1e-9)[
            "losses"
        ]
        == []
    )


def test_layers_that_do_not_fit_are_named_and_begin_anew_on_request(
    run, tmp_path, capsys
):
    run(tmp_path / "one")

    def init(self, key):
        params = Small.init(self, key)
        return {"w": params["w"][:, :12], "b": params["b"][:12], "head": jnp.ones(4)}

    settings = {"start_from": f"{tmp_path}/one/checkpoints/8"}
    changes = {"init": init}
    with pytest.raises(RunError) as error:
        run(tmp_path / "two", changes, **settings)
    text = str(error.value)
    assert "w is [8, 16] there, [8, 12] here" in text
    assert "head is missing there, [4] here" in text
    assert "--begin-anew 'b,head,w'" in text
    run(tmp_path / "two", changes, **settings, begin_anew="b,head,w")
    assert "These begin anew: b, head, w." in capsys.readouterr().out
    one = run(tmp_path / "three", **settings, begin_anew="b")
    assert len(one["losses"]) == 8


CHANGED = {
    "another loss": ({"scale": 2.0}, "loss_fingerprint="),
    "another optimizer": (
        {"optimizer": lambda self: optax.sgd(0.1)},
        "loss_fingerprint=",
    ),
    "other data": (
        {"load": lambda self: ({"x": np.ones((64, 8), np.float32)}, None)},
        "data_fingerprint=",
    ),
}


@pytest.mark.parametrize(("changes", "named"), CHANGED.values(), ids=CHANGED.keys())
def test_other_code_or_data_is_another_run_s(changes, named, run, tmp_path):
    run(tmp_path, num_steps=4)
    with pytest.raises(RunError, match=named) as error:
        run(tmp_path, changes)
    assert f"--start-from {tmp_path}/checkpoints/4" in str(error.value)


def test_another_jax_is_said_and_not_compared(run, tmp_path, monkeypatch, capsys):
    run(tmp_path, num_steps=4)
    monkeypatch.setattr(jax, "__version__", "0.99")
    assert len(run(tmp_path)["losses"]) == 4
    assert "this is JAX 0.99 on cpu: whether `loss`" in capsys.readouterr().out


def test_held_out_rows_may_be_absent(run, tmp_path, capsys):
    result = run(tmp_path, {"held": False})
    assert result["evaluation"] is None and result["best"] is None
    said = capsys.readouterr().out
    assert "step 4: loss" in said and "held-out" not in said


def test_an_evaluation_may_take_fewer_rows(run, tmp_path):
    every, two = (run(tmp_path / str(n), eval_batches=n) for n in (0, 2))
    assert every["losses"] == two["losses"]
    assert every["evaluation"] != two["evaluation"]


def test_an_average_of_the_parameters_is_evaluated_and_saved(run, tmp_path):
    plain = run(tmp_path / "plain")
    averaged = run(tmp_path / "ema", ema=0.9)
    assert plain["losses"] == averaged["losses"]
    assert plain["evaluation"] != averaged["evaluation"]
    run(tmp_path / "halves", ema=0.9, num_steps=4)
    halves = run(tmp_path / "halves", ema=0.9)
    assert halves["evaluation"] == averaged["evaluation"]
    assert np.array_equal(halves["params"]["w"], averaged["params"]["w"])
    shapes = {s.data.shape for s in halves["params"]["w"].addressable_shards}
    assert shapes == {(1, 16)}


def test_a_line_is_said_with_each_evaluation(run, tmp_path, capsys):
    run(tmp_path)
    said = [x for x in capsys.readouterr().out.splitlines() if x.startswith("step ")]
    assert [line.split(":")[0] for line in said] == ["step 4", "step 8"]
    for text in ("loss", "held-out loss", "learning rate", "rows/s", "left"):
        assert all(text in line for line in said)
    logged = lines(tmp_path)
    assert all({"learning_rate", "grad_norm"} <= set(line) for line in logged)


def test_the_report_shows_a_run(run, tmp_path):
    pytest.importorskip("matplotlib")
    run(tmp_path / "run")
    assert (tmp_path / "run" / "loss.png").read_bytes()[1:4] == b"PNG"
    page = full_pipeline.write_report(tmp_path / "run").read_text()
    for text in (
        "<svg",
        "rows_per_second",
        "MiB",
        "batch_size",
        "Plan beside measured",
    ):
        assert text in page
    with pytest.raises(RunError, match="holds no run"):
        full_pipeline.write_report(tmp_path)


def test_one_run_of_a_logger_goes_on_when_it_is_resumed(run, tmp_path, monkeypatch):
    wandb, mlflow = mock.Mock(), mock.Mock()
    wandb.init.return_value.id, mlflow.start_run.return_value.info.run_id = (
        "w3",
        "run-7",
    )
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    config = Config(str(tmp_path), **SETTINGS)
    for _ in range(2):
        full_pipeline.make_logger("wandb", config, 0)
        full_pipeline.make_logger("mlflow", config, 0)({"loss": 1.0}, 3)
    one, two = (call.kwargs for call in wandb.init.call_args_list)
    assert (one["id"], two["id"]) == (None, "w3") and two["resume"] == "allow"
    assert two["project"] == "mine"
    assert "mode" not in two  # online or offline, as the user set it
    assert mlflow.start_run.call_args.kwargs["run_id"] == "run-7"
    mlflow.log_metrics.assert_called_with({"loss": 1.0}, step=3)


class Numbers:
    """A stream of batches with a state, as Grain's."""

    def __init__(self, rows=16, length=10**6):
        self.place, self.rows, self.length = 0, rows, length

    def __iter__(self):
        return self

    def __next__(self):
        if self.place == self.length:
            raise StopIteration
        self.place += 1
        rng = np.random.default_rng(self.place)
        return {"x": rng.normal(size=(self.rows, 8)).astype(np.float32)}

    def get_state(self):
        return json.dumps({"place": self.place}).encode()

    def set_state(self, state):
        self.place = json.loads(state)["place"]


def streaming(**options):
    return {"load": lambda self: (Numbers(**options), None)}


def test_a_stream_goes_on_where_it_was(run, tmp_path):
    whole = run(tmp_path / "whole", streaming())
    run(tmp_path / "halves", streaming(), num_steps=4)
    halves = run(tmp_path / "halves", streaming())
    assert whole["losses"][4:] == halves["losses"]
    assert np.array_equal(whole["params"]["w"], halves["params"]["w"])


def test_a_stream_that_ends_saves_and_says_so(run, tmp_path):
    with pytest.raises(RunError, match=r"ended before step 8. Step 6 is saved"):
        run(tmp_path, streaming(length=7), save_every=8)
    assert checkpoints(tmp_path) == [4, 6]


def test_a_stream_s_batches_have_the_run_s_rows(run, tmp_path):
    with pytest.raises(RunError, match="batch of 12 rows: each process takes 16"):
        run(tmp_path, streaming(rows=12))


def test_an_evaluation_is_interrupted_and_made_up_for(run, tmp_path, monkeypatch):
    whole = run(tmp_path / "whole")
    evaluated = full_pipeline.Loop.evaluated

    def interrupted(self, step, state):
        os.kill(os.getpid(), signal.SIGTERM)
        while not self.is_asked:
            time.sleep(0.01)
        return evaluated(self, step, state)

    with monkeypatch.context() as patch:
        patch.setattr(full_pipeline.Loop, "evaluated", interrupted)
        stopped = run(tmp_path / "two")
    assert (stopped["stopped"], stopped["step"]) == (True, 4)
    assert not (tmp_path / "two" / "evaluations.jsonl").exists()
    assert run(tmp_path / "two")["evaluation"] == whole["evaluation"]
    for name in ("evaluations", "metrics"):
        assert lines(tmp_path / "two", name) == lines(tmp_path / "whole", name)


def test_a_slow_call_is_the_last_after_a_signal(run, tmp_path, monkeypatch):
    monkeypatch.setattr(full_pipeline, "SLOW_S", 0.0)  # as if each call took long
    read, taken = full_pipeline.Loop.read, []

    def reading(self):
        read(self)
        taken.append(len(self.losses))
        if len(taken) == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(full_pipeline.Loop, "read", reading)
    stopped = run(tmp_path, num_steps=40, save_every=40, eval_every=0)
    assert (
        stopped["stopped"] and stopped["step"] <= 6
    )  # two calls, and one more at most


def test_settings_of_a_task_are_set_on_the_command_line(tmp_path):
    config = Config(str(tmp_path), task="transformer", set="num_layers=2,row=32")
    task = pipeline_step.make_task(config)
    assert (task.num_layers, task.row, task.num_heads) == (2, 32, 8)
    for text, named in (("layers=2", "no setting 'layers'"), ("row=x", "row is a int")):
        config = Config(str(tmp_path), task="transformer", set=text)
        with pytest.raises(RunError, match=named):
            pipeline_step.make_task(config)
