"""Times what a learner waits for: imports, a finished lesson, each of its checks.

Run `python tests/benchmarks/lesson_speed.py`. All figures come from one run on one
machine; the ratios compare with starting Python and importing JAX and matplotlib.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from grader.authoring.build import read
from grader.authoring.execution import execute
from grader.authoring.notebook import lesson_paths, nbgrader_metadata

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


def main() -> None:
    """Prints the figures."""
    base = import_seconds(BASE)
    ours = import_seconds(f"{BASE}; import coursekit.notebook")
    print(f"import JAX and matplotlib      {base:6.2f} s")
    print(f"  and coursekit.notebook       {ours:6.2f} s  ({ours / base:.2f}x)")
    for path in lesson_paths():
        lesson = read(path, ROOT)
        ends = [time.perf_counter()]
        execute(lesson, on_cell=lambda ends=ends: ends.append(time.perf_counter()))
        total = ends[-1] - ends[0]
        print(f"{path.stem:<30} {total:6.2f} s  ({total / base:.2f}x)")
        code = [cell for cell in lesson.cells if cell.cell_type == "code"]
        for cell, start, end in zip(code, ends[:-1], ends[1:], strict=True):
            if nbgrader_metadata(cell).get("grade"):
                print(f"  {cell.id:<28} {end - start:6.2f} s")


if __name__ == "__main__":
    main()
