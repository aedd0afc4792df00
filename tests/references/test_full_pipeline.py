"""A run of the full pipeline survives kills, other meshes and bad settings."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
pytest.importorskip("orbax.checkpoint")

import full_pipeline
import pipeline_model
from full_pipeline import fit
from pipeline_run import Checkpoints, Config, SetupError

SMALL = {"num_steps": 40, "save_every": 10, "hidden": 32, "compute_dtype": "float32"}
# A child that dies, as by `kill -9`, right after it has logged so many steps.
DIES = """
import os, signal, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["NPROC"] = os.environ["PJRT_NPROC"] = "32"
sys.path.append({references!r})
import full_pipeline
write = full_pipeline.Metrics.write
def last_write(self, first_step, values):
    write(self, first_step, values)
    if first_step + 10 == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
full_pipeline.Metrics.write = last_write
full_pipeline.fit(full_pipeline.Config(directory={directory!r}, **{settings!r}))
"""


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


def log(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("step", [10, 20, 30])
def test_a_killed_run_ends_bit_for_bit_like_one_that_was_not(step, whole, tmp_path):
    facts = {"references": str(REFERENCES), "directory": str(tmp_path), "step": step}
    program = DIES.format(**facts, settings=SMALL)
    child = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert child.returncode == -signal.SIGKILL
    assert len(log(tmp_path)) == step
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
    types = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=types)
    optimizer = pipeline_model.make_optimizer(config)
    _, abstract = pipeline_model.abstract_state(config, optimizer, mesh)
    step, state = Checkpoints(config).restore(abstract)
    assert step == 40
    for tree in (state["params"], *[s for s in state["opt_state"][1][:1]]):
        w1 = tree["w1"] if isinstance(tree, dict) else tree.mu["w1"]
        assert {s.data.shape for s in w1.addressable_shards} == {(64, 16)}


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
    assert fit(Config(str(tmp_path)), progress=False)["accuracy"] > 0.97


def test_every_row_comes_once_in_each_epoch():
    rows = [pipeline_model.rows_of_step(step, 8, 30, seed=1) for step in range(15)]
    epochs = np.concatenate(rows).reshape(4, 30)
    assert all(sorted(epoch) == list(range(30)) for epoch in epochs.tolist())
    assert not np.array_equal(epochs[0], epochs[1])


def test_a_damaged_checkpoint_gives_way_to_the_one_before(whole, tmp_path, capsys):
    result = run(tmp_path)
    newest = max((tmp_path / "checkpoints").iterdir(), key=lambda path: int(path.name))
    for file in (newest / "state").rglob("*"):
        if file.is_file():
            file.write_bytes(b"damaged")
    assert same(run(tmp_path)["params"], result["params"])
    assert f"Checkpoint {newest.name} is damaged" in capsys.readouterr().out


BAD = {
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
    assert run(whole[0])["losses"] == []


def test_a_logger_that_is_missing_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    config = Config(str(tmp_path), **SMALL)
    with pytest.raises(SetupError, match="pip install wandb"):
        fit(config, log="wandb", progress=False)


def command(*arguments):
    script = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--quiet"]
    settings = [f"--{k.replace('_', '-')}={v}" for k, v in SMALL.items()]
    line = [*script, *settings, *map(str, arguments)]
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
    assert "Process 1 of 3 ended with code 3" in said and "resume" in said


def test_a_mesh_that_cannot_be_read_is_shown(tmp_path):
    done = command("--directory", tmp_path, "--mesh", "8")
    assert (done.returncode, done.stdout) == (2, "")
    assert "data=4,model=2" in done.stderr
