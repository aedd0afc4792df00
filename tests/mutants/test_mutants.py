"""Wrong answers that rules make of our solutions do not pass the checks."""

import subprocess
import sys
from pathlib import Path


def test_no_mutant_of_a_sample_lives_unless_the_contract_allows_it():
    command = [sys.executable, str(Path(__file__).parent), "--sample", "20"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
