"""The full pipeline trains tasks that others wrote: trees, weights, state, own text."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
pytest.importorskip("orbax.checkpoint")

import pipeline_step
from full_pipeline import Config, RunError, fit

OWN = Path(__file__).with_name("own_tasks.py")
SMALL = {
    "num_steps": 20,
    "schedule_steps": 1000,
    "save_every": 10,
    "hidden": 16,
    "compute_dtype": "float32",
}


@pytest.fixture(autouse=True)
def usual_promotion():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def run(directory, name, **settings):
    task = name if name == "text" else f"{OWN}:{name}" if name.isidentifier() else name
    config = Config(str(directory), task=task, **SMALL | settings)
    return fit(config, progress=False)


def leaves(result):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(result["params"])]


def test_the_template_trains_a_copy_of_itself(tmp_path):
    shutil.copy(REFERENCES / "pipeline_template.py", tmp_path / "my_task.py")
    task = f"{tmp_path}/my_task.py:MyTask"
    result = run(tmp_path / "run", task, num_steps=200, hidden=64)
    assert result["evaluation"]["accuracy"] > 0.8
    script = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--quiet"]
    line = [*script, "--task", "my_task.py:MyTask", "--directory", "other"]
    done = subprocess.run(
        [*line, "--num-steps=30"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "held-out accuracy" in done.stdout


def test_the_template_is_short():
    text = (REFERENCES / "pipeline_template.py").read_text()
    assert len(text.partition("class MyTask")[2].splitlines()) <= 40


@pytest.mark.parametrize(
    "settings",
    [{}, {"num_microbatches": 4}, {"mesh": {"data": 2, "model": 4}}],
    ids=["data=8", "microbatches", "data=2, model=4"],
)
def test_loss_and_metrics_are_means_over_valid_tokens_not_over_rows(settings, tmp_path):
    result = run(tmp_path, "Tokens", **settings)
    train, _ = pipeline_step.make_task(Config("unused", task=f"{OWN}:Tokens")).load()
    rows = pipeline_step.rows_between(0, 64, 128, seed=0)
    x, valid = train["x"][rows], train["valid"][rows]
    assert result["losses"][0] == pytest.approx((x**2)[valid].mean(), rel=1e-5)
    shift = sum(leaves(result))
    held_out = ((train["x"] - shift) ** 2)[train["valid"]].mean()
    assert result["evaluation"]["loss"] == pytest.approx(held_out, rel=1e-5)
    above = (train["x"] > 0)[train["valid"]].mean()
    assert result["evaluation"]["above"] == pytest.approx(above, rel=1e-5)


def test_nested_parameters_are_sharded_by_their_path(tmp_path):
    result = run(tmp_path, "Tokens", mesh={"data": 2, "model": 4})
    for layer in result["params"]["layers"]:
        assert {s.data.shape for s in layer["w"].addressable_shards} == {(2,)}


def test_the_manual_s_example_reads_the_parameters_on_one_device(tmp_path):
    result = run(tmp_path / "run", "Tokens", mesh={"data": 2, "model": 4})
    manual = (REFERENCES.parents[1] / "docs" / "training.md").read_text()
    [example] = re.findall(r"```python\n(import jax, numpy.*?)```", manual, re.DOTALL)
    example = example.replace(
        "/tmp/run/checkpoints/200", f"{tmp_path}/run/checkpoints/20"
    )
    shows = "print([params['layers'][n]['w'].tolist() for n in (0, 1)])"
    env = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    line = [sys.executable, "-c", example + shows]
    done = subprocess.run(line, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [leaf.tolist() for leaf in leaves(result)]


def test_a_path_that_no_parameter_has_is_named(tmp_path):
    with pytest.raises(RunError, match=r"No parameter has the name .'layer/\*/w'"):
        run(tmp_path, "Misnamed")


def test_running_statistics_are_kept_evaluated_and_resumed(tmp_path):
    whole = run(tmp_path / "whole", "BatchNorm")
    run(tmp_path / "halves", "BatchNorm", num_steps=10)
    halves = run(tmp_path / "halves", "BatchNorm")
    assert whole["evaluation"] == halves["evaluation"]
    assert all(map(np.array_equal, leaves(whole), leaves(halves)))
    logged = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()
    running = 0.0
    for line in map(json.loads, logged):
        running = 0.9 * running + 0.1 * line["first_mean"]
    assert whole["evaluation"]["first_mean"] == pytest.approx(running, rel=1e-4)


def test_dropout_differs_by_step_and_device_and_not_in_an_evaluation(tmp_path):
    eight = run(tmp_path / "eight", "Dropout")
    one = run(tmp_path / "one", "Dropout", mesh={"data": 1})
    assert len({*eight["losses"], *one["losses"]}) == 40
    assert eight["evaluation"]["loss"] == 0


def test_a_text_file_of_one_s_own_is_read_in_parts_by_each_process(tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("The cat sat on the mat, and the dog on the log. " * 300)
    settings = {"data": str(book), "batch_size": 16}
    whole = run(tmp_path / "one", "text", **settings)
    assert whole["losses"][-1] < whole["losses"][0] - 0.5
    assert whole["shown"].startswith("The ")
    script = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--quiet"]
    line = [*script, "--task=text", f"--directory={tmp_path}/two", "--processes=2"]
    settings |= {"num_steps": 10, "eval_batches": 1}
    line += [f"--{k.replace('_', '-')}={v}" for k, v in (SMALL | settings).items()]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    np.testing.assert_allclose(losses, whole["losses"][:10], rtol=1e-3)


def test_a_text_that_has_grown_is_another_run_s(tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("Once upon a time there was a mesh. " * 200)

    def settings():
        more = {"task": "text", "data": str(book), "batch_size": 16}
        config = Config("unused", **SMALL | more)
        return pipeline_step.settings_of(pipeline_step.prepare(config))

    before = settings()
    book.write_text(book.read_text() * 2)
    rows, *_ = pipeline_step.differences(before, settings())
    assert rows == "num_rows=98 there, 196 here"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"task": "no_file.py:MyTask"}, ["no_file.py:MyTask", "my_task.py:MyTask"]),
        ({"task": f"{OWN}:Nobody"}, ["own_tasks.py has no class Nobody"]),
        (
            {"task": "text", "data": "no.txt"},
            ["'no.txt'", "Name a file"],
        ),
    ],
    ids=["no file", "no class", "no text"],
)
def test_a_task_or_text_that_is_missing_is_named(settings, named, tmp_path):
    with pytest.raises(RunError) as error:
        fit(Config(str(tmp_path), **settings), progress=False)
    assert all(text in str(error.value) for text in named)
    assert not list(tmp_path.iterdir())
