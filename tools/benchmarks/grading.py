"""Times the grading of one class by stock nbgrader and by this course, and the floor.

Run `python tools/benchmarks/grading.py` on a machine that does nothing else; it takes
about twenty minutes on two cores. Each lesson has four submissions: solved, half
solved, wrong (a known wrong answer to each exercise) and slow (right, but each call
takes a second longer). All figures come from one run:

- seconds per submission by stock `nbgrader autograde`, by two of them side by side, and
  by `python -m grader grade`: contained, with its clean judge, for the first time and
  again;
- CPU seconds of the whole machine meanwhile (Linux), beside the floor:
  the same cells as a plain script, without demonstrations, in a process that has loaded
  JAX and finds all that a solution compiles in JAX's cache;
- whether the scores are those of stock nbgrader;
- the same by otter-grader, where `pip install -r tools/benchmarks/requirements.txt` was
  run before.

`--lessons 01 02` takes only these; `--submissions N` repeats the four kinds, with other
known answers, up to N per lesson. `--ours` leaves the others out, to see how the time
grows; `--levers` compares ours with itself without each thing that makes it fast.
`--unanswered ring_attention hsdp_step` leaves these exercises as they are released, to
compare with a commit that has fewer.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "lessons"), str(ROOT / "tests")]

from classes import generate_assignment
from known_answers import known_answers

from grader.classroom.course import make_course
from grader.classroom.folder import SEED, Classroom
from grader.containment.limits import Limits
from grader.judging.cell_plan import steps
from grader.kernel import compile_cache
from grader.lessons.release import checks, exercises, lesson_paths, release
from grader.submissions.read_submission import SubmittedFile
from grader.workers.cache_key import lesson_hashes
from grader.workers.jobs import Job
from grader.workers.local_executor import LocalExecutor

KINDS = ("solved", "half", "wrong", "slow")
STOCK = """\
c = get_config()
c.CourseDirectory.course_id = "stock"
c.ExecutePreprocessor.timeout = 120
"""
LATE = """

def _late(function):
    import functools, time

    @functools.wraps(function)
    def run(*arguments, **options):
        time.sleep(1)
        return function(*arguments, **options)

    return run


{name} = _late({name})
"""
# What makes grading fast, and code that turns it off.
LEVERS = {
    "compile cache": "from grader.workers.local_executor import LocalExecutor\n"
    "LocalExecutor.compiled = lambda self, job, precompile: None",
    "fork server": "from grader.workers import local_executor\n"
    "local_executor.fork_server = lambda start: None",
    "no demonstrations": "from grader.judging.trial import Trial\n"
    "run_lesson = Trial.run_lesson\n"
    "Trial.run_lesson = lambda self, session, whole: run_lesson(self, session, True)",
}
SCORES = """
select student_id, assignment.name, base_cell.name, auto_score from grade
join base_cell on base_cell.id = grade.cell_id
join submitted_notebook on submitted_notebook.id = grade.notebook_id
join submitted_assignment on submitted_assignment.id = submitted_notebook.assignment_id
join assignment on assignment.id = submitted_assignment.assignment_id
"""


def answers(source: Path, lesson: Any, kind: str, number: int) -> dict[str, str]:
    """Returns a submission's answers by exercise, without those that stay stubs.

    `number` chooses among the known answers; a solved submission's first are our own.
    """
    solved = {name: cell.source for name, cell in exercises(lesson).items()}
    verdict = "wrong" if kind == "wrong" else "right"
    for name, own in solved.items():
        known = [a.source for a in known_answers(source.stem, name, verdict)]
        choice = known if kind == "wrong" else [own, *known]
        solved[name] = choice[number % len(choice)]
    if kind == "half":
        return dict([*solved.items()][::2])
    if kind == "slow":  # in one exercise, whose function the others do not call
        defined = {n: re.findall(r"^def (\w+)", solved[n], re.M)[0] for n in solved}
        texts = " ".join(solved.values())
        first = next(n for n in solved if texts.count(f"{defined[n]}(") == 1)
        return solved | {first: solved[first] + LATE.format(name=defined[first])}
    return solved


def write_class(
    folder: Path,
    sources: Sequence[Path],
    count: int,
    unanswered: Sequence[str] = (),
    kinds: Sequence[str] = KINDS,
) -> dict[str, Any]:
    """Writes a course folder with `count` submissions per lesson; returns lessons."""
    make_course(folder)
    classroom, lessons = Classroom(folder), {}
    for source in sources:
        lesson = lessons[source.stem] = classroom.lessons[source.stem]
        for number, kind in zip(range(count), itertools.cycle(kinds), strict=False):
            notebook = release(lesson)
            given = answers(source, lesson, kind, number // len(kinds))
            for name, cell in exercises(notebook).items():
                if name not in unanswered:
                    cell.source = given.get(name, cell.source)
                    cell.source += f"\n# learner {number}\n"
            place = folder / "submitted" / f"{kind}{number:03}" / source.stem
            place.mkdir(parents=True)
            nbformat.write(notebook, place / f"{source.stem}.ipynb")
    return lessons


def busy_seconds() -> float:
    """Returns the CPU seconds that all processes of this machine have used."""
    ticks = [
        int(word)
        for word in Path("/proc/stat").read_text(encoding="utf-8").split()[1:9]
    ]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def timed(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """Returns (seconds, CPU seconds of the machine, result)."""
    start, used = time.perf_counter(), busy_seconds()
    result = run()
    return time.perf_counter() - start, busy_seconds() - used, result


def set_up_stock(folder: Path, lessons: dict[str, Any]) -> None:
    """Sets up the course as stock nbgrader grades it, hidden cases included."""
    (folder / "nbgrader_config.py").write_text(STOCK)
    for name in lessons:
        generate_assignment(folder, name)


def stock(folder: Path, lessons: dict[str, Any], processes: int) -> None:
    """Grades a course folder that `set_up_stock` has set up, lesson by lesson."""
    groups = ["*"] if processes == 1 else ["*[02468]", "*[13579]"]
    for name in lessons:
        words = [sys.executable, "-m", "nbgrader", "autograde", name]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running = [
            subprocess.Popen([*words, f"--student={group}"], cwd=folder, **quiet)
            for group in groups
        ]
        for process in running:
            process.wait()


def scores(folder: Path) -> dict[tuple[str, str, str], float]:
    """Reads a gradebook: {(student, lesson, check): points}."""
    rows = sqlite3.connect(folder / "gradebook.db").execute(SCORES).fetchall()
    return {tuple(row[:3]): row[3] or 0.0 for row in rows}


def ours(folder: Path, change: str = "", *options: str) -> None:
    """Grades a course folder by this course's command; `change` is run before it."""
    code = f"{change}\nimport sys\nfrom grader.__main__ import main\nsys.exit(main())"
    words = [sys.executable, "-c", code, "grade", str(folder), *options]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])


def otter(folder: Path) -> dict[tuple[str, str, str], float]:
    """Grades a course folder by otter-grader: {(student, lesson, check): points}."""
    script = Path(__file__).with_name("otter_class.py")
    words = [sys.executable, str(script), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return {
        (*submission.split(), f"check-{check}"): points
        for submission, found in json.loads(done.stdout.splitlines()[-1]).items()
        for check, points in found.items()
    }


def fill_caches(lessons: dict[str, Any]) -> None:
    """Fills the caches of this class's judges by grading each lesson's solution."""
    for name, lesson in lessons.items():
        executor = LocalExecutor({name: lesson}, Limits())
        hashes = lesson_hashes(lesson, Limits())
        executor.compiled(Job("", name, SubmittedFile(None), hashes), True)


FLOOR = """
import contextlib, io, json, linecache, os, sys, time, types
sys.path[:0] = [{lessons!r}]
import jax, matplotlib.pyplot, optax, orbax.checkpoint
sys.modules["__main__"] = types.ModuleType("__main__")  # where checks look for names
namespace = vars(sys.modules["__main__"])
cells = json.load(open(sys.argv[1]))
def run(number):
    name = f"<cell {{number}}>"  # functions are read back by their source
    lines = cells[number].splitlines(keepends=True)
    linecache.cache[name] = len(cells[number]), None, lines, name
    exec(compile(cells[number], name, "exec"), namespace)

with contextlib.redirect_stdout(io.StringIO()):
    run(0)
    jax.devices()
    start = time.perf_counter(), sum(os.times()[:4])
    for number in range(1, len(cells)):
        try:
            run(number)
        except Exception:
            pass
print(time.perf_counter() - start[0], sum(os.times()[:4]) - start[1])
"""


def floor(folder: Path, lessons: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Runs each submission's cells and our checks: {lesson: (seconds, CPU seconds)}."""
    found = {}
    for name, lesson in lessons.items():
        cache = compile_cache.find(lesson_hashes(lesson, Limits()))
        env = os.environ | compile_cache.variables(cache)
        sums = [0.0, 0.0]
        for path in sorted((folder / "submitted").glob(f"*/{name}/{name}.ipynb")):
            own = exercises(nbformat.read(path, 4))
            cells, checked = [], checks(lesson)
            for step in steps(lesson):
                source = step.source if step.kind == "setup" else step.lean
                cells.append(own[step.name].source if step.name in own else source)
            cells += [cell.source for cell in checked.values()]
            with tempfile.TemporaryDirectory() as place:
                Path(place, "cells.json").write_text(
                    json.dumps(cells), encoding="utf-8"
                )
                script = FLOOR.format(lessons=str(ROOT / "lessons"))
                words = [sys.executable, "-c", script, "cells.json"]
                out = subprocess.run(
                    words, cwd=place, env=env, capture_output=True, text=True
                )
            for place, text in enumerate(out.stdout.split()[-2:]):
                sums[place] += float(text)
        found[name] = tuple(sums)
    return found


def main() -> None:
    """Prints the figures, with the targets beside them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lessons", nargs="*", default=[])
    parser.add_argument("--submissions", type=int, default=len(KINDS))
    parser.add_argument("--unanswered", nargs="*", default=[])
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--levers", action="store_true")
    options = parser.parse_args()
    sources = [
        path.with_suffix(".py")
        for path in lesson_paths()
        if not options.lessons or path.stem[:2] in options.lessons
    ]
    with tempfile.TemporaryDirectory(prefix="class-") as top:
        compare(Path(top), sources, options)


def compare(top: Path, sources: Sequence[Path], options: argparse.Namespace) -> None:
    """Grades the class in each way and prints what that took."""
    count = options.submissions * len(sources)
    names = ["ours", "stock", "two", "otter", *LEVERS]
    folders = {name: top / name.replace(" ", "-") for name in names}
    made = {
        name: write_class(folder, sources, options.submissions, options.unanswered)
        for name, folder in folders.items()
    }
    for folder in folders.values():
        # The same hidden cases, for which caches are filled.
        if folder != folders["ours"]:
            shutil.copy(folders["ours"] / SEED, folder / SEED)
    lessons = made["ours"]
    known = {name for lesson in lessons.values() for name in exercises(lesson)}
    if unknown := sorted({*options.unanswered} - known):
        sys.exit(f"No exercise is called {', '.join(unknown)}: see solutions/.")
    took, cpu, otters = {}, {}, {}

    def measure(name: str, run: Callable[[], Any]) -> Any:
        took[name], cpu[name], result = timed(run)
        print(
            f"{name:<42}{took[name]:8.1f} s {cpu[name]:8.1f} CPU s "
            f"{took[name] / count:6.2f} s each",
            flush=True,
        )
        return result

    print(
        f"{count} submissions: {options.submissions} of each of {len(sources)} lessons"
    )
    measure("fill the caches, once", lambda: fill_caches(lessons))
    measure("ours", lambda: ours(folders["ours"]))
    measure("ours, again", lambda: ours(folders["ours"]))
    for name, change in LEVERS.items() if options.levers else ():
        measure(f"ours, without: {name}", lambda n=name, c=change: ours(folders[n], c))
        ratios = took[f"ours, without: {name}"] / took["ours"]
        print(f"  {ratios:.2f} times as long")
    if options.ours or options.levers:
        return
    least = measure("(the floor's run)", lambda: floor(folders["ours"], lessons))
    for name, (seconds, used) in least.items():
        print(f"  floor of {name:<32}{seconds:8.1f} s {used:8.1f} CPU s")
    one, two = "stock nbgrader", "two of them side by side"
    for name in ("stock", "two"):
        set_up_stock(folders[name], lessons)
    measure(one, lambda: stock(folders["stock"], lessons, 1))
    measure(two, lambda: stock(folders["two"], lessons, 2))
    if importlib.util.find_spec("otter"):
        otters = measure("otter-grader", lambda: otter(folders["otter"]))
        print(f"otter-grader / ours     {took['otter-grader'] / took['ours']:6.2f}")
    else:
        print("otter-grader is not installed: see the head of this file")
    floor_cpu = sum(used for _, used in least.values())
    for text, value, holds in (
        ("stock / ours", took[one] / took["ours"], ">= 6"),
        ("two stock / ours", took[two] / took["ours"], ">= 3.5"),
        ("CPU of ours / floor", cpu["ours"] / floor_cpu, "<= 1.5"),
    ):
        print(f"{text:<24}{value:6.2f}  target {holds}")
    ours_, stock_ = scores(folders["ours"]), scores(folders["stock"])
    other = sorted(key for key in ours_ if ours_[key] != stock_.get(key))
    print(f"scores: {len(ours_)}, of which {len(other)} are not stock nbgrader's")
    for key in other:
        print(f"  {' '.join(key)}: {ours_[key]:g}, stock nbgrader {stock_.get(key)}")
    for key in sorted(key for key in otters if ours_.get(key, 0.0) != otters[key]):
        print(f"  {' '.join(key)}: {ours_.get(key)}, otter-grader {otters[key]:g}")


if __name__ == "__main__":
    main()
