"""Of several processes that hang, one says which one the others wait for."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
pytest.importorskip("orbax.checkpoint")

OWN = Path(__file__).with_name("own_tasks.py")


@contextlib.contextmanager
def started(name, folder, data=""):
    """Starts two processes; what they print comes line by line, errors, too."""
    line = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--quiet"]
    line += ["--processes=2", f"--task={OWN}:{name}", f"--directory={folder}"]
    line += ["--batch-size=32", "--steps-per-call=2", "--num-steps=8", "--hang-after=2"]
    line += ["--warmup-steps=1", "--save-every=4", "--eval-every=2", f"--data={data}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(line, **pipes) as child:
        try:
            yield child
        finally:
            child.terminate()


def next_match(child, pattern):
    """Reads lines until one matches."""
    for line in child.stdout:
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"{pattern} did not come; exit code {child.wait()}")


def test_a_process_that_hangs_is_named_shows_its_stack_and_may_go_on(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    with started("Halting", tmp_path / "run", pipe) as child:
        pattern = r"Process 1 has not finished step 3, before which it loads data, for "
        found = next_match(child, pattern + r"\d+ s \(process (\d+) on host")
        next_match(child, "The others wait: 1 in step 4. .*py-spy dump.*kill -USR1")
        os.kill(int(found[1]), signal.SIGUSR1)
        next_match(child, r"own_tasks.py.* in __next__")
        pipe.write_text("go on")
        next_match(child, "step 8: loss")
        assert child.wait() == 0
        assert not [*(tmp_path / "run").glob("process-*.json")]


def test_a_process_that_leaves_a_collective_out_is_seen_by_the_other(tmp_path):
    with started("Skipping", tmp_path / "run") as child:
        pattern = "Process 0 has not finished the evaluation after step 2 for "
        found = next_match(child, pattern + r"\d+ s \(process (\d+) on host")
        next_match(child, "The others wait: 1 in the checkpoint of step 2. ")
        os.kill(int(found[1]), signal.SIGKILL)
        next_match(child, "Of 2 processes ended process 0 with code -9")
