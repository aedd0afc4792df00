"""A run of the full pipeline survives kills, other meshes and bad settings."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import jax
import numpy as np
import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
pytest.importorskip("orbax.checkpoint")
import full_pipeline
import pipeline_step
import pipeline_tasks
import sharded_pipeline
from full_pipeline import Checkpoints, Config, Log, RunError, fit
from jax.experimental import multihost_utils
from orbax.checkpoint import CheckpointManager

SMALL = {
    "num_steps": 40,
    "schedule_steps": 1000,
    "save_every": 10,
    "hidden": 32,
    "compute_dtype": "float32",
}
REGRESSION = {
    "task": "regression",
    "batch_size": 256,
    "peak_lr": 0.01,
    "steps_per_call": 50,
    "save_every": 500,
}


@pytest.fixture(autouse=True)
def usual_promotion():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def run(directory, **settings):
    return fit(Config(str(directory), **{**SMALL, **settings}), progress=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing interrupted: (directory, result)."""
    folder = tmp_path_factory.mktemp("whole")
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return folder, run(folder)


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


def make_mesh(*sizes):
    types = (jax.sharding.AxisType.Auto,) * 2
    return jax.make_mesh(sizes, ("data", "model"), axis_types=types)


def close_to_truth(result):
    """Whether the regression's weights and error are those of the data."""
    true, noise = sharded_pipeline.make_data(1)[2], sharded_pipeline.NOISE
    for name in ("w", "b"):
        assert np.abs(result["params"][name] - true[name]).max() < noise / 10
    assert result["evaluation"]["loss"] == pytest.approx(noise**2, rel=0.2)


def log(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("after", "step", "save_every", "logged"),
    [
        ("metrics", 10, 10, 20),  # the checkpoint of step 20 is not there yet
        ("metrics", 0, 20, 10),  # the next call is under way
        ("metrics", 20, 20, 30),  # likewise, after a checkpoint
        ("checkpoint", 20, 20, 20),  # what a checkpoint holds is in the log
    ],
)
def test_a_killed_run_ends_bit_for_bit_like_one_that_was_not(
    after, step, save_every, logged, whole, tmp_path, kill_a_run
):
    kill_a_run(tmp_path, SMALL | {"save_every": save_every}, after, step)
    assert len(log(tmp_path)) == logged
    folder, result = whole
    assert same(run(tmp_path)["params"], result["params"])
    assert log(tmp_path) == log(folder)


def test_a_longer_run_continues_where_the_shorter_ended(whole, tmp_path):
    run(tmp_path, num_steps=20)
    folder, result = whole
    assert same(run(tmp_path)["params"], result["params"])
    assert log(tmp_path) == log(folder)


def test_a_run_that_is_done_takes_no_step(whole):
    folder, result = whole
    again = run(folder)
    assert (again["step"], again["losses"]) == (40, [])
    assert same(again["params"], result["params"])


@pytest.mark.parametrize(
    "mesh", [{"data": 4}, {"data": 2}, {"data": 1}, {"data": 4, "model": 2}], ids=str
)
def test_a_checkpoint_is_restored_in_another_layout(mesh, whole):
    folder, result = whole
    assert same(run(folder, mesh=mesh)["params"], result["params"])


def test_split_parameters_lie_split_after_a_restore(whole):
    config = Config(str(whole[0]), mesh={"data": 4, "model": 2}, **SMALL)
    task = pipeline_step.make_task(config)
    _, abstract = pipeline_step.first_state(task, make_mesh(4, 2))
    checkpoints = Checkpoints(config)
    assert checkpoints.step == 40
    state = checkpoints.restore_state(abstract)
    for tree in (state["params"], *[s for s in state["opt_state"][1][:1]]):
        w1 = tree["w1"] if isinstance(tree, dict) else tree.mu["w1"]
        assert {s.data.shape for s in w1.addressable_shards} == {(64, 16)}


@pytest.mark.parametrize(("hidden", "meetings"), [(32, 1), (256, 3)])
def test_devices_meet_once_for_all_small_parameters(hidden, meetings):
    config = Config("unused", **{**SMALL, "hidden": hidden})
    task, mesh = pipeline_step.make_task(config), make_mesh(8, 1)
    _, abstract = pipeline_step.first_state(task, mesh)
    call = pipeline_step.make_train_step(task, mesh)
    x = jax.ShapeDtypeStruct((10, 1, 64, 64), "float32")
    y = jax.ShapeDtypeStruct((10, 1, 64), "int32")
    text = call.lower(abstract, (x, y)).as_text()
    assert text.count("stablehlo.all_reduce") == meetings  # large ones: w1 and w2


@pytest.mark.parametrize(
    "settings",
    [{"mesh": {"data": 1}}, {"mesh": {"data": 2, "model": 4}}, {"num_microbatches": 4}],
    ids=["one device", "another mesh", "microbatches"],
)
def test_losses_are_those_of_eight_devices_and_one_batch(settings, whole, tmp_path):
    losses = run(tmp_path, **settings)["losses"]
    np.testing.assert_allclose(losses, whole[1]["losses"], rtol=2e-3)


def test_bfloat16_computes_what_float32_computes_nearly(whole, tmp_path):
    result = run(tmp_path, compute_dtype="bfloat16")
    np.testing.assert_allclose(result["losses"], whole[1]["losses"], rtol=0.05)
    assert {leaf.dtype for leaf in result["params"].values()} == {np.dtype("float32")}


def test_the_default_run_reads_digits(tmp_path):
    result = fit(Config(str(tmp_path)), progress=False)
    assert result["evaluation"]["accuracy"] > 0.97


@pytest.mark.parametrize("mesh", [{"data": 8}, {"data": 4, "model": 2}], ids=str)
def test_the_regression_recovers_the_weights_to_noise_level(mesh, tmp_path):
    result = run(tmp_path, **REGRESSION, num_steps=500, mesh=mesh)
    close_to_truth(result)
    assert len(result["losses"]) == 500


def test_three_thousand_steps_in_a_row_survive(tmp_path):
    settings = REGRESSION | {"num_steps": 3000, "steps_per_call": 10}
    done = command("--directory", tmp_path, *options(settings))
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line["step"] for line in log(tmp_path)] == list(range(1, 3001))
    close_to_truth(run(tmp_path, **settings))


def test_every_row_comes_once_in_each_epoch():
    starts = range(0, 120, 8)
    rows = [pipeline_step.rows_between(n, n + 8, 30, seed=1) for n in starts]
    epochs = np.concatenate(rows).reshape(4, 30)
    assert all(sorted(epoch) == list(range(30)) for epoch in epochs.tolist())
    assert not np.array_equal(epochs[0], epochs[1])


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def damage(item, steps=(40,)):
    """Makes a function that overwrites an item's files in some checkpoints."""

    def act(folder, monkeypatch):
        for step in steps:
            for path in (folder / "checkpoints" / str(step) / item).rglob("*"):
                if path.is_file():
                    path.write_bytes(b"damaged")

    return act


def lose_state(folder, monkeypatch):
    shutil.rmtree(folder / "checkpoints" / "40" / "state")


def fill_memory(folder, monkeypatch):
    def full(*arguments, **options):
        raise MemoryError("no room for 3 GB")

    monkeypatch.setattr(CheckpointManager, "restore", full)


UNREADABLE = {
    "damaged state": (damage("state"), [40], "JSONDecodeError"),
    "damaged facts": (damage("facts", (40, 30)), [40, 30], "JSONDecodeError"),
    "all damaged": (damage("state", (40, 30, 20)), [40, 30, 20], "JSONDecodeError"),
    "missing state": (lose_state, [40], "KeyError"),
    "full memory": (fill_memory, [40, 30, 20], "no room for 3 GB"),
}


@pytest.mark.parametrize(
    ("act", "steps", "reason"), UNREADABLE.values(), ids=UNREADABLE.keys()
)
def test_an_unreadable_checkpoint_stops_the_run_and_changes_nothing(
    act, steps, reason, whole, tmp_path, monkeypatch
):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    with monkeypatch.context() as patch:
        act(folder, patch)
        before = contents(folder)
        with pytest.raises(RunError) as error:
            run(folder, num_steps=60)
    assert contents(folder) == before
    text = str(error.value)
    for step in steps:
        assert f"Checkpoint {step} in {folder}/checkpoints cannot be read" in text
    assert text.count("cannot be read") == len(steps) and reason in text
    assert "begin anew, choose another --directory" in text
    advised = re.findall(r"--start-from (\S+)", text)
    assert advised == [f"{folder}/checkpoints/{steps[-1] - 10}"][: 3 - len(steps)]


def test_an_older_checkpoint_continues_in_a_directory_of_its_own(
    whole, tmp_path, capsys
):
    folder, result = whole
    before = contents(folder)
    settings = {"start_from": f"{folder}/checkpoints/20"}
    again = run(tmp_path, **settings)
    said = capsys.readouterr().out
    assert f"Continuing from checkpoint 20 in {folder}" in said
    assert "Newer ones stay: [30, 40]." in said
    assert same(again["params"], result["params"])
    assert again["losses"] == result["losses"][20:]
    assert contents(folder) == before
    # Started once more, by a scheduler say, it has checkpoints of its own.
    assert run(tmp_path, **settings)["losses"] == []


def test_a_start_from_nothing_is_refused(whole, tmp_path):
    with pytest.raises(RunError, match=r"15 is no checkpoint.*\[20, 30, 40\]"):
        run(tmp_path, start_from=f"{whole[0]}/checkpoints/15")
    assert not list(tmp_path.iterdir())


def test_of_two_processes_one_that_cannot_read_ends_both(whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    damage("state")(folder, None)
    before = contents(folder)
    done = command("--directory", folder, "--processes", 2, "--num-steps", 60)
    assert done.returncode in (1, 2)
    assert "Checkpoint 40" in done.stderr and "cannot be read" in done.stderr
    for path in (folder / "lock", *folder.glob("process-*.json")):
        path.unlink(missing_ok=True)  # one that was ended leaves it
    assert contents(folder) == before


def test_lines_of_steps_that_are_taken_again_move_into_a_file_beside(
    whole, tmp_path, kill_a_run, capsys
):
    kill_a_run(tmp_path, SMALL, "metrics", 10)
    path = tmp_path / "metrics.jsonl"
    with path.open("a") as file:
        file.write('{"step": 21, "lo')  # as after a power cut
    lines = path.read_text().splitlines()
    again = len(run(tmp_path)["losses"])
    cut = (tmp_path / "metrics.cut.jsonl").read_text().splitlines()
    assert cut == lines[40 - again :] and len(cut) >= 11
    moved = "Moved the lines of later steps from metrics.jsonl to metrics.cut.jsonl."
    assert moved in capsys.readouterr().out
    assert log(tmp_path) == log(whole[0])


LIMITED = """
import resource, sys
sys.path.append({references!r})
import full_pipeline
save = full_pipeline.Checkpoints.save_state
def limited(self, step, *more):
    if step == 20:
        self.manager.wait_until_finished()
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, -1))
    save(self, step, *more)
full_pipeline.Checkpoints.save_state = limited
sys.exit(full_pipeline.main())
"""


def test_a_checkpoint_that_cannot_be_written_ends_the_run_which_can_continue(tmp_path):
    (script := tmp_path / "script.py").write_text(
        LIMITED.format(references=str(REFERENCES))
    )
    settings = SMALL | {"hidden": 256}
    line = [sys.executable, str(script), "--quiet", *options(settings)]
    line += ["--directory", str(tmp_path / "run")]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 2
    *_, reason, remedy = done.stderr.splitlines()  # before them, threads may complain
    assert reason.startswith(f"A checkpoint cannot be written to {tmp_path}/run/check")
    assert remedy.startswith("Complete ones: [10]. Make room, then run the same line")
    again, undisturbed = (
        run(tmp_path / "run", hidden=256),
        run(tmp_path / "other", hidden=256),
    )
    assert len(again["losses"]) == 30
    assert same(again["params"], undisturbed["params"])


def test_a_schedule_keeps_its_end_when_a_run_grows(tmp_path, capsys):
    settings = {"schedule_steps": 0, "warmup_steps": 5}
    run(tmp_path / "run", **settings, num_steps=20)
    grown = run(tmp_path / "run", **settings)
    assert "From step 20 on" in capsys.readouterr().out
    at_once = run(tmp_path / "other", **settings | {"schedule_steps": 20})
    assert same(grown["params"], at_once["params"])
    with pytest.raises(RunError, match="schedule_steps=20 there, 40 here"):
        run(tmp_path / "run", **settings | {"schedule_steps": 40})


def test_each_evaluation_is_logged_and_the_best_checkpoint_kept(tmp_path, monkeypatch):
    losses = iter([3.0, 1.0, float("nan"), 2.0, 4.0, 2.5])
    monkeypatch.setattr(
        pipeline_step, "make_evaluate", lambda *_: lambda *_: {"loss": next(losses)}
    )
    settings = {"eval_every": 10, "keep": 1, "save_every": 40}
    assert run(tmp_path, **settings)["best"] == 20
    assert run(tmp_path, **settings, num_steps=60)["best"] == 20
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["20", "60"]
    lines = (tmp_path / "evaluations.jsonl").read_text().splitlines()
    found = [(line["step"], line["loss"]) for line in map(json.loads, lines)]
    assert found[:2] == [(10, 3.0), (20, 1.0)] and len(found) == 6


def test_an_evaluation_takes_each_held_out_row_once(tmp_path):
    config = Config(str(tmp_path), **SMALL)
    result = fit(config, progress=False)
    x, y = pipeline_tasks.Digits(config).load()[1]
    params = jax.tree.map(np.asarray, result["params"])
    hidden = np.maximum(x @ params["w1"] + params["b1"], 0)
    hidden = np.maximum(hidden @ params["w2"] + params["b2"], 0)
    right = (hidden @ params["w3"] + params["b3"]).argmax(-1) == y
    assert result["evaluation"]["accuracy"] == pytest.approx(right.mean(), abs=1e-6)


def test_speed_and_share_of_the_peak_are_logged(tmp_path, monkeypatch):
    monkeypatch.setitem(pipeline_step.PEAK_FLOPS, "cpu", 1e12)
    result = run(tmp_path)
    lines = [json.loads(x) for x in (tmp_path / "speed.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [20, 30, 40]  # the first call compiles
    num_params = sum(leaf.size for leaf in result["params"].values())
    for line in lines:
        rate = 64 / line["step_seconds"]
        assert line["rows_per_second"] == pytest.approx(rate)
        assert line["mfu"] == pytest.approx(rate * 6 * num_params / 8e12)


def test_a_profile_holds_the_steps_that_were_asked_for(tmp_path):
    run(tmp_path, profile=15)
    [trace] = (tmp_path / "profile").rglob("*.xplane.pb")
    data = jax.profiler.ProfileData.from_file(str(trace))
    lines = (line for plane in data.planes for line in plane.lines)
    names = [event.name for line in lines for event in line.events]
    assert names.count("train") == 2  # calls, of 10 steps each


def test_the_settings_are_in_the_run_s_folder(tmp_path):
    run(tmp_path, num_steps=20)
    found = json.loads((tmp_path / "settings.json").read_text())
    assert (found["num_steps"], found["hidden"]) == (20, 32)


def test_what_it_runs_on_is_said_first(tmp_path, capsys, monkeypatch):
    run(tmp_path, num_steps=10)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Training digits on 8 simulated CPU devices."
    device = SimpleNamespace(platform="gpu", device_kind="NVIDIA H200")
    monkeypatch.setattr(jax, "devices", lambda: [device])
    assert pipeline_step.machine() == "8 x NVIDIA H200"


def test_parameters_end_sharded_as_they_were_trained(tmp_path):
    w1 = run(tmp_path, mesh={"data": 4, "model": 2}, num_steps=10)["params"]["w1"]
    assert {shard.data.shape for shard in w1.addressable_shards} == {(64, 16)}


def send(monkeypatch, *numbers):
    """Has signals come, one after the other, when the first steps are logged."""
    write = Log.write

    def writing(self, step, values):
        write(self, step, values)
        for number in numbers if step == 0 else ():
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Log, "write", writing)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_a_signal_ends_a_run_after_its_step_and_it_goes_on_with_the_same_bits(
    number, whole, tmp_path, monkeypatch
):
    before = signal.getsignal(number)
    with monkeypatch.context() as patch:
        send(patch, number)
        stopped = run(tmp_path, save_every=40)
    assert stopped["stopped"] and stopped["step"] < 40
    assert len(log(tmp_path)) == stopped["step"]
    assert signal.getsignal(number) == before
    folder, result = whole
    assert same(run(tmp_path, save_every=40)["params"], result["params"])
    assert log(tmp_path) == log(folder)


def test_a_second_ctrl_c_ends_a_run_at_once(tmp_path, monkeypatch, capfd):
    before = signal.getsignal(signal.SIGINT)
    send(monkeypatch, signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, save_every=40)
    assert "Ctrl-C again ends at once" in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) == before
    assert not list((tmp_path / "checkpoints").iterdir())


def test_ctrl_c_before_the_first_step_prints_a_line_and_no_traceback(
    monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["full_pipeline.py", "--directory", "unused"])
    monkeypatch.setattr(
        full_pipeline, "train", mock.Mock(side_effect=KeyboardInterrupt)
    )
    assert full_pipeline.main() == 130
    said = capsys.readouterr().err
    assert said == "Ended at once. Run the same line again to continue.\n"


STOPS = """
import os, signal, sys
sys.path.append({references!r})
import full_pipeline
write = full_pipeline.Log.write
def stopping(self, step, values):
    write(self, step, values)
    if step == 0:
        {kill}
full_pipeline.Log.write = stopping
full_pipeline.__file__ = __file__
sys.exit(full_pipeline.main())
"""


KILLS = {  # a terminal sends Ctrl-C to all of its processes
    "SIGTERM to one": "os.kill(os.getpid(), signal.SIGTERM)",
    "Ctrl-C": "os.killpg(os.getpgrp(), signal.SIGINT)",
}


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS.keys())
@pytest.mark.parametrize("processes", [[], ["--processes=2"]], ids=["one", "two"])
def test_a_signal_ends_all_processes_after_the_same_step(processes, kill, tmp_path):
    (script := tmp_path / "script.py").write_text(
        STOPS.format(references=str(REFERENCES), kill=kill)
    )
    settings = SMALL | REGRESSION | {"num_steps": 10**6, "save_every": 10**6}
    line = [sys.executable, str(script), "--quiet", *options(settings)]
    line += ["--directory", str(tmp_path / "run"), *processes]
    kept = {"capture_output": True, "text": True, "timeout": 200}
    done = subprocess.run(line, **kept, start_new_session=True)
    assert done.returncode == 143, done.stderr
    assert "Traceback" not in done.stderr
    [step] = re.findall(r"Stopped: step (\d+) is saved\. Run the same", done.stdout)
    assert len(log(tmp_path / "run")) == int(step)
    more = settings | {"num_steps": int(step) + 50, "save_every": 50}
    assert len(run(tmp_path / "run", **more)["losses"]) == 50


def test_saving_does_not_ask_for_the_end_of_a_run_which_is_counted_in_calls(
    tmp_path, monkeypatch
):
    asked = mock.Mock(return_value=False)
    monkeypatch.setattr(multihost_utils, "reached_preemption_sync_point", asked)
    run(tmp_path, num_steps=20)
    asked.assert_not_called()


BAD = {
    "task": ({"task": "poetry"}, ["poetry", "digits", "regression", "transformer"]),
    "heads": ({"task": "transformer", "hidden": 20}, ["20", "8 heads"]),
    "width": (
        {"task": "transformer", "mesh": {"data": 5}, "batch_size": 5},
        ["32", "5"],
    ),
    "batch": ({"batch_size": 60}, ["60", "8"]),
    "microbatches": ({"num_microbatches": 3}, ["64", "24"]),
    "large batch": ({"batch_size": 2048}, ["2048", "1437"]),
    "large mesh": ({"mesh": {"data": 16}}, ["data=16, model=1", "there are 8"]),
    "empty mesh": ({"mesh": {"data": 8, "model": 0}}, ["model=0", "at least one"]),
    "unknown axis": ({"mesh": {"rows": 8}}, ["rows", "data"]),
    "hidden": ({"mesh": {"data": 1, "model": 3}}, ["32", "3"]),
    "steps": ({"num_steps": 45}, ["num_steps=45", "10"]),
    "saves": ({"save_every": 15}, ["save_every=15", "10"]),
    "evaluations": ({"eval_every": 15}, ["eval_every=15", "10"]),
    "no saves": ({"save_every": 0}, ["save_every=0", "from 1 up"]),
    "none kept": ({"keep": 0}, ["keep=0", "from 1 up"]),
    "negative": ({"batch_size": -64}, ["batch_size=-64", "from 1 up"]),
    "negative seed": ({"seed": -1}, ["seed=-1", "from 0 up"]),
    "rate": ({"peak_lr": float("nan")}, ["peak_lr=nan", "above 0"]),
    "norm": ({"max_norm": 0.0}, ["max_norm=0.0", "above 0"]),
    "decay": ({"weight_decay": float("inf")}, ["weight_decay=inf", "from 0 up"]),
    "dtype": ({"compute_dtype": "int8"}, ["int8", "bfloat16"]),
    "warm-up": ({"warmup_steps": 1000}, ["warmup_steps=1000 must be less than 1000"]),
    "short run": (
        {"num_steps": 10, "schedule_steps": 0},
        ["warmup_steps=20 must be less than 10", "--num-steps"],
    ),
    "no folder": ({"directory": "/dev/null/x"}, ["/dev/null/x"]),
}


@pytest.mark.parametrize(("settings", "named"), BAD.values(), ids=BAD.keys())
def test_bad_settings_are_named_before_any_step(settings, named, tmp_path):
    with pytest.raises(RunError) as error:
        run(**{"directory": tmp_path, **settings})
    assert all(word in str(error.value) for word in named)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_an_optimizer_without_warm_up_takes_any_number_of_steps(tmp_path):
    settings = {"num_steps": 10, "schedule_steps": 0, "warmup_steps": 20}
    assert run(tmp_path, task="regression", **settings)["step"] == 10


def test_a_checkpoint_of_another_model_is_refused(whole):
    with pytest.raises(RunError, match="hidden=32 there, 64 here"):
        run(whole[0], hidden=64)
    with pytest.raises(RunError, match="task=digits there, regression here"):
        run(whole[0], task="regression")
    assert run(whole[0])["losses"] == []


def test_a_parameter_that_is_misspelled_is_named(whole, monkeypatch):
    init = pipeline_tasks.Digits.init

    def other(self, key):
        params = init(self, key)
        return params | {"w33": params.pop("w3")}

    monkeypatch.setattr(pipeline_tasks.Digits, "init", other)
    loss = pipeline_tasks.Digits.loss
    monkeypatch.setattr(
        pipeline_tasks.Digits,
        "loss",
        lambda self, params, *rest: loss(self, params | {"w3": params["w33"]}, *rest),
    )
    before = contents(whole[0])
    with pytest.raises(RunError, match=r"params/w33=\(not said\) there, \[32, 10\]"):
        run(whole[0], num_steps=60)
    assert contents(whole[0]) == before


def test_a_setting_that_a_checkpoint_does_not_name_is_another_run_s(tmp_path):
    run(tmp_path)
    for facts in (tmp_path / "checkpoints").glob("*/facts/*"):
        if "max_norm" in (text := facts.read_text()):
            facts.write_text(text.replace("max_norm", "some_other_name"))
    with pytest.raises(RunError, match=r"max_norm=\(not said\) there, 1.0 here"):
        run(tmp_path)


def test_a_logger_that_is_missing_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    config = Config(str(tmp_path), **SMALL)
    with pytest.raises(RunError, match="pip install wandb"):
        fit(config, log="wandb", progress=False)


def test_a_logger_that_is_passed_in_gets_each_step(whole, tmp_path):
    calls, config = [], Config(str(tmp_path), **SMALL)
    fit(config, log=lambda values, step: calls.append((step, values)), progress=False)
    *steps, evaluation = calls
    found = [
        {"step": step, **{name: values[name] for name in line if name != "step"}}
        for (step, values), line in zip(steps, log(tmp_path), strict=True)
    ]
    assert found == log(tmp_path)
    assert evaluation[0] == 40 and evaluation[1].keys() == {
        "held_out_loss",
        "held_out_accuracy",
    }
    assert [step for step, values in steps if "rows_per_second" in values] == [
        20,
        30,
        40,
    ]


def test_weights_and_biases_and_tensorboard_get_each_step(whole, tmp_path, monkeypatch):
    wandb, tensorboard = mock.Mock(), mock.Mock()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "tensorboardX", tensorboard)
    wandb.init.return_value.id = "w3"
    settings = {**SMALL, "num_steps": 10}
    fit(Config(str(tmp_path / "one"), **settings), log="wandb", progress=False)
    lines = log(tmp_path / "one")
    *logged, _ = wandb.init.return_value.log.call_args_list
    assert [{"step": c.kwargs["step"], **c.args[0]} for c in logged] == lines
    fit(Config(str(tmp_path / "two"), **settings), log="tensorboard", progress=False)
    added = tensorboard.SummaryWriter.return_value.add_scalar.call_args_list
    assert {c.args for c in added} >= {
        (name, line[name], line["step"])
        for line in lines
        for name in ("loss", "grad_norm")
    }
    assert "held_out_loss" in {c.args[0] for c in added}


def options(settings):
    return [f"--{k.replace('_', '-')}={v}" for k, v in settings.items()]


def command(*arguments):
    script = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--quiet"]
    line = [*script, *options(SMALL), *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True)


def test_two_processes_train_like_one(whole, tmp_path):
    done = command("--directory", tmp_path, "--processes", 2, "--num-steps", 20)
    assert done.returncode == 0, done.stderr
    losses = [line["loss"] for line in log(tmp_path)]
    np.testing.assert_allclose(losses, whole[1]["losses"][:20], rtol=1e-3)
    # What two processes began, one ends.
    np.testing.assert_allclose(
        run(tmp_path)["losses"], whole[1]["losses"][20:], rtol=0.01
    )


def test_a_mesh_must_reach_every_process(tmp_path):
    done = command("--directory", tmp_path, "--processes", 2, "--mesh", "data=4")
    assert done.returncode in (1, 2)  # one process failed, or both already had
    assert "4 of the 8 devices of 2 processes" in done.stderr


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="asks /proc")
def test_processes_end_with_the_one_that_started_them(tmp_path):
    script = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--quiet"]
    line = [*script, "--directory", str(tmp_path), "--processes", "2"]
    parent = subprocess.Popen(line)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")

    def have_loaded_jax(pids):  # so long after their start, the parent knows of both
        return all(
            "jaxlib" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
            for pid in pids
        )

    while len(
        pids := children.read_text(encoding="utf-8").split()
    ) < 2 or not have_loaded_jax(pids):
        time.sleep(0.05)
    parent.terminate()
    assert parent.wait(30) == 143
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


FAILS = """
import signal, sys
number = sys.argv[-1].split("/")[0]
sys.exit(3) if number == "1" else signal.pause()
"""


def test_the_others_end_when_one_process_fails(tmp_path, monkeypatch, capsys):
    script = tmp_path / "script.py"
    script.write_text(FAILS)
    monkeypatch.setattr(full_pipeline, "__file__", str(script))
    assert full_pipeline.launch([], 3) == 1
    said = capsys.readouterr().err
    assert "process 1 with code 3" in said and "resume" in said


RAISES = """
import sys
sys.path.append({references!r})
import jax
import full_pipeline
def fit(*_):
    if jax.process_index() == 1:
        raise RuntimeError("the disk of process 1 is gone")
    while True:
        pass
full_pipeline.fit = fit
sys.exit(full_pipeline.main())
"""


def test_a_process_that_raises_ends_though_others_still_run(
    tmp_path, monkeypatch, capfd
):
    script = tmp_path / "script.py"
    script.write_text(RAISES.format(references=str(REFERENCES)))
    monkeypatch.setattr(full_pipeline, "__file__", str(script))
    assert full_pipeline.launch(["--directory", str(tmp_path)], 2) == 1
    said = capfd.readouterr().err
    assert "the disk of process 1 is gone" in said
    assert "Of 2 processes ended process 1 with code 1" in said


def test_processes_that_end_at_once_are_all_named(tmp_path, monkeypatch, capfd):
    start = subprocess.Popen

    def start_and_wait(line):
        child = start([sys.executable, "-c", "raise SystemExit(3)"])
        child.wait()
        return child

    monkeypatch.setattr(subprocess, "Popen", start_and_wait)
    assert full_pipeline.launch(["--directory", str(tmp_path)], 2) == 1
    said = capfd.readouterr().err
    assert "Of 2 processes ended process 0 with code 3, process 1 with code 3" in said


def test_a_mesh_that_cannot_be_read_is_shown(tmp_path):
    done = command("--directory", tmp_path, "--mesh", "8")
    assert (done.returncode, done.stdout) == (2, "")
    assert "data=4,model=2" in done.stderr


def test_a_run_is_planned_for_chips_that_are_not_there():
    done = command("--plan", "h100:2x4", "--hidden", "256", "--batch-size", "64")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()  # on a busy machine it also says that it compiles
    first, *_, last = [line for line in said if not line.startswith("compiling for")]
    assert first.startswith("h100:2x4: ") and first.endswith(" GiB a chip, fits")
    assert 'state["opt_state"]' in done.stdout
    assert "all-reduce of f32[256,256] along data (network)" in done.stdout
    assert last.endswith("rows a second, if the input keeps up (a model)")


@pytest.mark.parametrize(
    ("chips", "settings", "said"),
    [
        ("a100:8", {}, "There is no chip 'a100' in the table"),
        ("h100:2", {"mesh": {"data": 4}}, "needs 4 devices; there are 2"),
        ("h100:8", {"batch_size": 63}, "does not divide by 8 devices"),
    ],
)
def test_what_cannot_be_planned_is_said_in_a_line(chips, settings, said):
    with pytest.raises(RunError, match=said) as error:
        pipeline_step.planned(Config("unused", **SMALL | settings), chips)
    assert "\n" not in str(error.value)


def test_a_plan_for_tpus_says_which_compiler_made_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "libtpu", None)
    plan = pipeline_step.planned(Config("unused", **SMALL), "v5p:2x2x1")
    assert 'for the TPU\'s own compiler: pip install "jax[tpu]" (Linux)' in plan
