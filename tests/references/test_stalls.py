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


PAGE = (REFERENCES.parents[1] / "docs" / "clusters.md").read_text(encoding="utf-8")


@contextlib.contextmanager
def started(*options):
    """Starts two processes; what they print comes line by line, errors, too."""
    script = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--quiet"]
    line = [*script, "--processes=2", *options, "--hang-after=2"]
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
    own = f"--task={Path(__file__).with_name('own_tasks.py')}:Halting", f"--data={pipe}"
    steps = "--batch-size=32", "--steps-per-call=2", "--num-steps=8", "--save-every=4"
    more = "--warmup-steps=1", "--eval-every=2", f"--directory={tmp_path}/run"
    with started(*own, *steps, *more) as child:
        pattern = r"Process 1 has not finished step 3, before which it loads data, for "
        found = next_match(child, pattern + r"\d+ s \(process (\d+) on host")
        next_match(child, "The others wait: 1 in step 4. .*py-spy dump.*kill -USR1")
        os.kill(int(found[1]), signal.SIGUSR1)
        next_match(child, r"own_tasks.py.* in __next__")
        pipe.write_text("go on")
        next_match(child, "step 8: loss")
        assert child.wait() == 0
        assert not [*(tmp_path / "run").glob("process-*.json")]


def test_the_page_s_process_that_leaves_an_evaluation_out_is_seen_by_it(tmp_path):
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    [line] = re.findall(
        r"python full_pipeline.py (--task hangs.*?)```", PAGE, re.DOTALL
    )
    (tmp_path / "hangs.py").write_text(program)
    options = line.replace("\\\n", " ").replace("hangs.py", f"{tmp_path}/hangs.py")
    options = options.replace("/tmp/hangs", f"{tmp_path}/run").split()
    with started(*options, "--hidden=16") as child:
        pattern = "Process 0 has not finished the evaluation after step 20 for "
        found = next_match(child, pattern + r"\d+ s \(process (\d+) on host")
        next_match(child, "The others wait: 1 in the checkpoint of step 20. ")
        os.kill(int(found[1]), signal.SIGKILL)
        next_match(child, "Of 2 processes ended process 0 with code -9")
