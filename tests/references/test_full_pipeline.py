"""A run of the full pipeline survives kills, other meshes and bad settings."""

import importlib
import json
import os
import re
import signal
import socket
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
import pipeline_model
import sharded_pipeline
from full_pipeline import fit
from orbax.checkpoint import CheckpointManager
from pipeline_run import Checkpoints, Config, Metrics, SetupError

SMALL = {"num_steps": 40, "save_every": 10, "hidden": 32, "compute_dtype": "float32"}
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
    assert result["score"] == ("rms_error", pytest.approx(noise, rel=0.1))


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
    task = pipeline_model.make_task(config)
    _, abstract = pipeline_model.abstract_state(task, make_mesh(4, 2))
    step, state = Checkpoints(config).restore(abstract)
    assert step == 40
    for tree in (state["params"], *[s for s in state["opt_state"][1][:1]]):
        w1 = tree["w1"] if isinstance(tree, dict) else tree.mu["w1"]
        assert {s.data.shape for s in w1.addressable_shards} == {(64, 16)}


@pytest.mark.parametrize(("hidden", "meetings"), [(32, 1), (256, 3)])
def test_devices_meet_once_for_all_small_parameters(hidden, meetings):
    config = Config("unused", **{**SMALL, "hidden": hidden})
    task, mesh = pipeline_model.make_task(config), make_mesh(8, 1)
    _, abstract = pipeline_model.abstract_state(task, mesh)
    call = pipeline_model.make_train_call(task, mesh)
    x = jax.ShapeDtypeStruct((10, 1, 64, 64), "float32")
    y = jax.ShapeDtypeStruct((10, 1, 64), "int32")
    text = call.lower(abstract, x, y).as_text()
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
    name, value = fit(Config(str(tmp_path)), progress=False)["score"]
    assert name == "accuracy" and value > 0.97


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
    rows = [pipeline_model.rows_between(n, n + 8, 30, seed=1) for n in starts]
    epochs = np.concatenate(rows).reshape(4, 30)
    assert all(sorted(epoch) == list(range(30)) for epoch in epochs.tolist())
    assert not np.array_equal(epochs[0], epochs[1])


def damage(folder, count, item):
    """Overwrites an item's files in the newest checkpoints; returns their names."""
    steps = [path for path in (folder / "checkpoints").iterdir() if path.name.isdigit()]
    newest = sorted(steps, key=lambda path: int(path.name))[-count:]
    for file in (file for path in newest for file in (path / item).rglob("*")):
        if file.is_file():
            file.write_bytes(b"damaged")
    return [path.name for path in newest]


@pytest.mark.parametrize(("count", "item"), [(1, "state"), (2, "facts"), (3, "state")])
def test_damaged_checkpoints_give_way_to_the_one_before_and_are_kept(
    count, item, whole, tmp_path, capsys
):
    result, before = run(tmp_path), log(tmp_path)
    names = damage(tmp_path, count, item)
    assert same(run(tmp_path)["params"], result["params"])
    said = capsys.readouterr().out
    for name in names:
        assert f"Checkpoint {name} could not be read" in said
        aside = tmp_path / "checkpoints" / "damaged" / f"{name}.0" / item
        files = [path for path in aside.rglob("*") if path.is_file()]
        assert files and {path.read_bytes() for path in files} == {b"damaged"}
    assert log(tmp_path) == before
    assert run(tmp_path)["losses"] == []  # its last step is saved again


def test_a_checkpoint_that_memory_has_no_room_for_is_not_lost(tmp_path, monkeypatch):
    result = run(tmp_path)

    def full(*arguments, **options):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointManager, "restore", full)
        run(tmp_path, num_steps=10)
    folder = tmp_path / "checkpoints"
    (folder / "10").rename(tmp_path / "other")
    (folder / "damaged" / "40.0").rename(folder / "40")
    again = run(tmp_path)
    assert again["losses"] == [] and same(again["params"], result["params"])


def test_a_checkpoint_that_one_process_alone_cannot_read_stays(tmp_path, monkeypatch):
    def nobody_comes(*arguments, **options):
        raise TimeoutError

    (tmp_path / "40").mkdir()
    # By its full name: `from orbax.checkpoint import multihost` gives another module
    # until this one is imported, and the program holds this one's function.
    multihost = importlib.import_module("orbax.checkpoint.multihost")
    monkeypatch.setattr(multihost, "sync_global_processes", nobody_comes)
    manager = SimpleNamespace(directory=tmp_path, reload=lambda: None)
    with pytest.raises(TimeoutError):
        Checkpoints.set_aside(SimpleNamespace(manager=manager), 40, OSError())
    assert [path.name for path in tmp_path.iterdir()] == ["40"]


def test_sigterm_ends_a_run_after_its_step_and_it_goes_on_with_the_same_bits(
    whole, tmp_path, monkeypatch
):
    before, write = signal.getsignal(signal.SIGTERM), Metrics.write

    def dying(self, step, values):
        write(self, step, values)
        if step == 0:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Metrics, "write", dying)
        stopped = run(tmp_path, save_every=40)
    assert stopped["stopped"] and stopped["step"] < 40
    assert len(log(tmp_path)) == stopped["step"]
    assert signal.getsignal(signal.SIGTERM) == before
    folder, result = whole
    assert same(run(tmp_path, save_every=40)["params"], result["params"])
    assert log(tmp_path) == log(folder)


STOPS = """
import os, signal, sys
sys.path.append({references!r})
import full_pipeline
write = full_pipeline.Metrics.write
def stopping(self, step, values):
    write(self, step, values)
    if step == 0:
        os.kill(os.getpid(), signal.SIGTERM)
full_pipeline.Metrics.write = stopping
full_pipeline.__file__ = __file__
sys.exit(full_pipeline.main())
"""


@pytest.mark.parametrize("processes", [[], ["--processes=2"]], ids=["one", "two"])
def test_sigterm_to_one_process_ends_all_after_the_same_step(processes, tmp_path):
    (script := tmp_path / "script.py").write_text(
        STOPS.format(references=str(REFERENCES))
    )
    settings = SMALL | REGRESSION | {"num_steps": 10**6, "save_every": 10**6}
    line = [sys.executable, str(script), "--quiet", *options(settings)]
    line += ["--directory", str(tmp_path / "run"), *processes]
    done = subprocess.run(line, capture_output=True, text=True, timeout=200)
    assert done.returncode == 143, done.stderr
    [step] = re.findall(r"Stopped by SIGTERM: step (\d+) is saved", done.stdout)
    assert len(log(tmp_path / "run")) == int(step)
    more = settings | {"num_steps": int(step) + 50, "save_every": 50}
    assert len(run(tmp_path / "run", **more)["losses"]) == 50


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
    "large mesh": ({"mesh": {"data": 16}}, ["16", "8"]),
    "unknown axis": ({"mesh": {"rows": 8}}, ["rows", "data"]),
    "hidden": ({"mesh": {"data": 1, "model": 3}}, ["32", "3"]),
    "steps": ({"num_steps": 45}, ["num_steps=45", "10"]),
    "saves": ({"save_every": 15}, ["save_every=15", "10"]),
    "no folder": ({"directory": "/dev/null/x"}, ["/dev/null/x"]),
}


@pytest.mark.parametrize(("settings", "named"), BAD.values(), ids=BAD.keys())
def test_bad_settings_are_named_before_any_step(settings, named, tmp_path):
    with pytest.raises(SetupError) as error:
        run(**{"directory": tmp_path, **settings})
    assert all(word in str(error.value) for word in named)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_another_model_is_refused(whole):
    with pytest.raises(SetupError, match="hidden=32, this one has 64"):
        run(whole[0], hidden=64)
    with pytest.raises(SetupError, match="task=digits, this one has regression"):
        run(whole[0], task="regression")
    assert run(whole[0])["losses"] == []


def test_a_setting_that_a_checkpoint_does_not_name_is_another_run_s(tmp_path):
    run(tmp_path)
    for facts in (tmp_path / "checkpoints").glob("*/facts/*"):
        if "max_norm" in (text := facts.read_text()):
            facts.write_text(text.replace("max_norm", "some_other_name"))
    with pytest.raises(SetupError, match=r"max_norm=\(not said\), this one has 1.0"):
        run(tmp_path)
    assert not (tmp_path / "checkpoints" / "damaged").exists()


def test_a_logger_that_is_missing_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    config = Config(str(tmp_path), **SMALL)
    with pytest.raises(SetupError, match="pip install wandb"):
        fit(config, log="wandb", progress=False)


def test_a_logger_that_is_passed_in_gets_each_step(whole, tmp_path):
    calls, config = [], Config(str(tmp_path), **SMALL)
    fit(config, log=lambda values, step: calls.append((step, values)), progress=False)
    assert [{"step": step, **values} for step, values in calls] == log(tmp_path)


def test_weights_and_biases_and_tensorboard_get_each_step(whole, tmp_path, monkeypatch):
    wandb, tensorboard = mock.Mock(), mock.Mock()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "tensorboardX", tensorboard)
    settings = {**SMALL, "num_steps": 10}
    fit(Config(str(tmp_path / "one"), **settings), log="wandb", progress=False)
    lines = log(tmp_path / "one")
    logged = wandb.init.return_value.log.call_args_list
    assert [{"step": c.kwargs["step"], **c.args[0]} for c in logged] == lines
    fit(Config(str(tmp_path / "two"), **settings), log="tensorboard", progress=False)
    added = tensorboard.SummaryWriter.return_value.add_scalar.call_args_list
    assert {c.args for c in added} == {
        (name, line[name], line["step"])
        for line in lines
        for name in ("loss", "grad_norm")
    }


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


def test_processes_that_slurm_started_find_each_other(tmp_path):
    script = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--cluster"]
    line = [*script, "--quiet", "--directory", str(tmp_path), "--mesh", "data=2"]
    settings = options({**SMALL, "num_steps": 20})
    env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    # As `srun` would set them, on one host; the port comes from the job's number.
    env |= {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": "localhost"}
    children = [
        subprocess.Popen(
            [*line, *settings],
            env=env | {"SLURM_NTASKS": "2", "SLURM_PROCID": n, "SLURM_LOCALID": n},
        )
        for n in ("0", "1")
    ]
    try:
        assert [child.wait(120) for child in children] == [0, 0]
    finally:
        for child in children:
            child.kill()
    assert [line["step"] for line in log(tmp_path)] == list(range(1, 21))


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
        return all("jaxlib" in Path(f"/proc/{pid}/maps").read_text() for pid in pids)

    while len(pids := children.read_text().split()) < 2 or not have_loaded_jax(pids):
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


def test_a_port_that_another_process_has_is_named(tmp_path):
    with socket.socket() as other:
        other.bind(("localhost", 0))
        other.listen()
        port = other.getsockname()[1]
        done = command("--directory", tmp_path, "--processes", 2, "--port", port)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Port {port} belongs to another process: choose another" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_mesh_that_cannot_be_read_is_shown(tmp_path):
    done = command("--directory", tmp_path, "--mesh", "8")
    assert (done.returncode, done.stdout) == (2, "")
    assert "data=4,model=2" in done.stderr
