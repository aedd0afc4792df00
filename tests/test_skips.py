"""Where a system package is missing, a run ends by saying what to install."""

import os
import subprocess
import sys
from pathlib import Path

from grader import ROOT

CONTAINED = "tests/kernel/test_compile_cache.py"
BROWSER = "tests/learner/test_lab.py::test_page_opens_on_the_list_of_lessons"


def test_what_was_skipped_is_said_last_with_the_command_that_installs_it():
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    env = os.environ | {"PATH": str(Path(sys.executable).parent)}
    done = subprocess.run(
        [*words, CONTAINED, BROWSER], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    *_, first, second, _total = done.stdout.strip().splitlines()
    assert "sudo apt install bubblewrap" in first and "tests were skipped" in first
    assert "1 tests were skipped" in second and "sudo apt install chromium" in second
