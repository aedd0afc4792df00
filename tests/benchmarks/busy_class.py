"""Replays a class in which one learner's code keeps 400 processes busy.

Run `python tests/benchmarks/busy_class.py --workers 1 2 8 --runs 20`; a run takes some
two minutes on two cores. The class has three submissions: lesson 1 with such code in
each answer, lesson 1 solved, lesson 5 solved. Each run is a fresh `python -m grader
grade`, contained. For each it prints the seconds, in all and of each submission, and
right answers; at the end in how many runs the honest marks were whole. The status
is 1 unless that is all.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "lessons")]

from grader.authoring.release import exercises, release
from grader.classroom.course import make_course
from grader.classroom.folder import Classroom
from grader.results import Outcome

FIRST, LAST = "01_pmap_spmd", "05_full_pipeline"
BUSY = """\
def {name}(*arguments, **options):
    import os

    if os.environ.get("COURSE_CONTAINED") != "1":
        raise SystemExit("only inside the containment")
    for _ in range(400):
        if not os.fork():
            while True:
                pass
    while True:
        pass
"""
HONEST = {("honest", FIRST), ("honest", LAST)}


def write_class(folder: Path) -> None:
    """Writes the three submissions."""
    make_course(folder)
    classroom = Classroom(folder)
    for student, name in (("busy", FIRST), *sorted(HONEST)):
        lesson = classroom.lesson(name)
        notebook, solved = release(lesson), exercises(lesson)
        for exercise, cell in exercises(notebook).items():
            cell.source = solved[exercise].source
            if student == "busy":
                [defined, *_] = re.findall(r"^def (\w+)", cell.source, re.M)
                cell.source = BUSY.format(name=defined)
        place = folder / "submitted" / student / name
        place.mkdir(parents=True)
        nbformat.write(notebook, place / f"{name}.ipynb")


def run(workers: int) -> bool:
    """Grades the class once; tells whether the honest marks are whole."""
    with tempfile.TemporaryDirectory(prefix="class-") as top:
        folder, begun = Path(top) / "class", time.monotonic()
        write_class(folder)
        words = [sys.executable, "-m", "grader", "grade", str(folder)]
        begun = time.monotonic()
        done = subprocess.run(
            [*words, "--workers", str(workers)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        took = time.monotonic() - begun
        whole, told = set(), []
        for path in sorted((folder / "grading" / "results").rglob("*.json")):
            facts = json.loads(path.read_text())
            name, checked = facts["result"]["lesson"], facts["result"]["exercises"]
            right = sum(one["outcome"] == Outcome.PASSED for one in checked)
            took_s = f"in {facts['seconds']:.0f} s"
            told.append(f"{name}: {right} of {len(checked)} right {took_s}")
            if right == len(checked):
                whole.add(("honest", name))
        print(f"{workers} workers, {took:.0f} s: {'; '.join(told)}", flush=True)
        if done.returncode or whole != HONEST:
            print(done.stdout[-3000:] + done.stderr[-1000:])
        return done.returncode == 0 and whole == HONEST


def main() -> int:
    """Runs it as often as was asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", nargs="*", type=int, default=[1, 2, 8])
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    found = [run(workers) for _ in range(options.runs) for workers in options.workers]
    print(f"honest marks whole in {sum(found)} of {len(found)} runs")
    return int(not all(found))


if __name__ == "__main__":
    sys.exit(main())
