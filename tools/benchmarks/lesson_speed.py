"""Times what a learner waits for: imports, a finished lesson, each of its checks.

Run `python tools/benchmarks/lesson_speed.py`. All figures come from one run on one
machine; the ratios compare with starting Python and importing JAX and matplotlib. Each
lesson runs twice: as in a clone or in Colab, where checks also run the hidden cases,
and as a class gets it, where checks run only their examples.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from collections.abc import Mapping

from nbformat import NotebookNode

from grader.authoring.build import lesson_sources, read
from grader.authoring.execution import execute
from grader.lessons.release import (
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


def cell_seconds(
    notebook: NotebookNode, files: Mapping[str, str]
) -> tuple[float, dict[str, float]]:
    """Runs a solved notebook; returns its seconds, and those of each check.

    `files` are added to the package that it imports.
    """
    ends = [time.perf_counter()]
    on_cell = lambda: ends.append(time.perf_counter())  # noqa: E731
    execute(notebook, on_cell=on_cell, files=files)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    found = {
        cell.id: end - start
        for cell, start, end in zip(code, ends[:-1], ends[1:], strict=True)
        if nbgrader_metadata(cell).get("grade")
    }
    return ends[-1] - ends[0], found


def as_learners_have_it(lesson: NotebookNode) -> NotebookNode:
    """Sets the solutions into the released lesson."""
    notebook = release(lesson)
    for name, cell in exercises(notebook).items():
        cell.source = exercises(lesson)[name].source
    return notebook


def main() -> None:
    """Prints the figures."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    base = import_seconds(BASE)
    ours = import_seconds(f"{BASE}; import coursekit.notebook")
    print(f"import JAX and matplotlib      {base:6.2f} s")
    print(f"  and coursekit.notebook       {ours:6.2f} s  ({ours / base:.2f}x)")
    print(f"{'':<30}  in a clone       in a class")
    for path in lesson_paths():
        lesson = read(path, ROOT)
        notebook = as_learners_have_it(lesson)
        examples = {f"checks/{path.name}": lesson.metadata["checks"]}
        total, checks = cell_seconds(notebook, lesson_sources(ROOT))
        part, in_class = cell_seconds(notebook, examples)
        ratios = f"({total / base:.2f}x)  {part:6.2f} s  ({part / base:.2f}x)"
        print(f"{path.stem:<30} {total:6.2f} s  {ratios}")
        for name, seconds in checks.items():
            print(f"  {name:<28} {seconds:6.2f} s           {in_class[name]:6.2f} s")


if __name__ == "__main__":
    main()
