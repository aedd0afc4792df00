"""Lessons 1 to 3 run on other numbers of devices than eight, their examples included.

Simulated devices stand for real ones, as `JAX_PLATFORMS=cuda` may find 2 or 4 of them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("lesson", "num_devices"),
    [("01_pmap_spmd", 2), ("02_collectives", 4), ("03_pmap_training", 4)],
)
def test_a_solved_lesson_runs_on_fewer_devices(lesson, num_devices, tmp_path):
    notebook = nbformat.read(ROOT / "solutions" / f"{lesson}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    sources = [cell.source for cell in cells]
    for eight in ("device_count=8", "with_devices(8"):
        assert eight in sources[0]
        fewer = eight.replace("8", str(num_devices))
        sources[0] = sources[0].replace(eight, fewer)
    program = tmp_path / "lesson.py"
    program.write_text("\n\n".join(sources), encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAX_"))}
    env |= {"COURSE_LANGUAGE": "en", "PYTHONPATH": str(ROOT / "lessons")}
    env |= {"MPLBACKEND": "agg", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(program)]
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == f"Ready: {num_devices} simulated CPU devices."
    checked = re.findall(r'(?m)^check\("(\w+)"\)$', "\n".join(sources))
    # Hidden cases take eight devices.
    right = re.findall(r"(?m)^(\w+)  right on the examples  ", run.stdout)
    assert right == checked, run.stdout
