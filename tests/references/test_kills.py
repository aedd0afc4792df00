"""A run with a stream, an average and FSDP ends the same after any number of kills.

`KILLS=20` sends that many signals, in turn those of `kill -9`, a cluster and Ctrl-C.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
ocp = pytest.importorskip("orbax.checkpoint")

NUM_KILLS = int(os.environ.get("KILLS", "3"))
NUM_STEPS = 100 * (NUM_KILLS + 1)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
SETTINGS = {
    "task": f"{Path(__file__).with_name('own_tasks.py')}:Streamed",
    "mesh": "data=4,model=2",
    "batch-size": 16,
    "steps-per-call": 2,
    "num-steps": NUM_STEPS,
    "schedule-steps": NUM_STEPS,
    "save-every": 20,
    "eval-every": 50,
    "ema": 0.99,
    "compute-dtype": "float32",
}


def start(folder):
    script = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--quiet"]
    line = [*script, "--directory", str(folder)]
    line += [f"--{name}={value}" for name, value in SETTINGS.items()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(line, **pipes)


def finish(child):
    said, errors = child.communicate(timeout=600)
    assert child.returncode == 0, errors
    return said


def count_lines(folder):
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def params(folder):
    state = folder / "checkpoints" / str(NUM_STEPS) / "state"
    reader = ocp.PyTreeCheckpointer()
    tree = reader.metadata(state).item_metadata.tree
    like = {name: tree[name] for name in ("params", "ema")}
    how = {n: {"w": ocp.RestoreArgs(restore_type=np.ndarray)} for n in like}
    args = ocp.args.PyTreeRestore(like, restore_args=how, partial_restore=True)
    return reader.restore(state, args=args)


def test_a_run_that_is_stopped_at_many_moments_ends_to_the_byte(tmp_path):
    finish(start(tmp_path / "whole"))
    folder, rng = tmp_path / "run", random.Random(0)
    codes = []
    for number in range(NUM_KILLS):
        moment = min(count_lines(folder) + rng.randrange(100), NUM_STEPS - 20)
        child = start(folder)
        while child.poll() is None and count_lines(folder) < moment:
            time.sleep(0.005)
        child.send_signal(SIGNALS[number % 3])
        child.communicate(timeout=300)
        codes.append(child.returncode)
    # Before it listens, Python's own handlers end the run, which has nothing to save.
    assert set(codes) <= {-signal.SIGKILL, 143, -signal.SIGTERM, -signal.SIGINT, 130}
    finish(start(folder))
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    one, two = params(folder), params(tmp_path / "whole")
    for name in ("params", "ema"):
        np.testing.assert_array_equal(one[name]["w"], two[name]["w"])
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == NUM_STEPS
