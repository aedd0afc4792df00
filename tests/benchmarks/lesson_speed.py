"""Times what a learner waits for: imports, a finished lesson, each of its checks.

Run `python tests/benchmarks/lesson_speed.py`. All figures come from one run on one
machine; the ratios compare with starting Python and importing JAX and matplotlib. Each
lesson runs twice: as a learner has it, and with hidden tests, as the grader has it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from nbformat import NotebookNode

from grader.authoring.build import read
from grader.authoring.execution import execute
from grader.authoring.notebook import (
    exercises,
    lesson_paths,
    nbgrader_metadata,
    release,
)

BASE = "import jax, jax.numpy, matplotlib.pyplot"


def import_seconds(program: str, repeats: int = 5) -> float:
    """Runs `program` in fresh processes; returns the fastest run's seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        folder = ROOT / "lessons"
        subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def cell_seconds(notebook: NotebookNode) -> tuple[float, dict[str, float]]:
    """Runs a solved notebook; returns its seconds, and those of each check."""
    ends = [time.perf_counter()]
    execute(notebook, on_cell=lambda: ends.append(time.perf_counter()))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    found = {
        cell.id: end - start
        for cell, start, end in zip(code, ends[:-1], ends[1:], strict=True)
        if nbgrader_metadata(cell).get("grade")
    }
    return ends[-1] - ends[0], found


def as_learners_have_it(lesson: NotebookNode) -> NotebookNode:
    """Sets the solutions into the released lesson: its checks have no hidden tests."""
    notebook = release(lesson)
    for name, cell in exercises(notebook).items():
        cell.source = exercises(lesson)[name].source
    return notebook


def main() -> None:
    """Prints the figures."""
    base = import_seconds(BASE)
    ours = import_seconds(f"{BASE}; import coursekit.notebook")
    print(f"import JAX and matplotlib      {base:6.2f} s")
    print(f"  and coursekit.notebook       {ours:6.2f} s  ({ours / base:.2f}x)")
    print(f"{'':<30}  learner's        with hidden tests")
    for path in lesson_paths():
        lesson = read(path, ROOT)
        total, checks = cell_seconds(as_learners_have_it(lesson))
        whole, hidden = cell_seconds(lesson)
        ratios = f"({total / base:.2f}x)  {whole:6.2f} s  ({whole / base:.2f}x)"
        print(f"{path.stem:<30} {total:6.2f} s  {ratios}")
        for name, seconds in checks.items():
            print(f"  {name:<28} {seconds:6.2f} s           {hidden[name]:6.2f} s")


if __name__ == "__main__":
    main()
