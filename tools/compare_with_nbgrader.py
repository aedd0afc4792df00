"""Grades the corpus's cheats by stock nbgrader, in sandboxes, and prints a table."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
END_TO_END = ROOT / "tests" / "end_to_end"
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(END_TO_END)]
sys.path.append(str(ROOT / "lessons"))

from classes import generate_assignment
from hostile.build import FULL, cases, load, write
from hostile.corpus_lesson import NAME, in_stock_form, write_course
from tqdm import tqdm

from grader.authoring.lesson import read_lesson
from grader.classroom.course import make_course
from grader.containment.backend import backend, contained
from grader.containment.box import Box
from grader.containment.limits import Limits
from grader.lessons.release import dumps, without_grading_facts
from grader.results import Status

TABLE = END_TO_END / "hostile" / "COMPARISON.md"
LIMITS = Limits(cpu_s=120, wall_s=120)
STOCK = """\
c = get_config()
c.CourseDirectory.course_id = "stock"
c.ExecutePreprocessor.timeout = 20
"""
# Runs inside the box: nbgrader's own grading, then a query of its gradebook.
INSIDE = f"""\
import json, sqlite3, subprocess, sys
command = [sys.executable, "-m", "nbgrader", "autograde", "{NAME}"]
try:
    subprocess.run(command, timeout=100, stdout=sys.stderr)
except subprocess.TimeoutExpired:
    pass
rows = sqlite3.connect("gradebook.db").execute(
    "select base_cell.name, auto_score from grade "
    "join base_cell on base_cell.id = grade.cell_id "
    "join submitted_notebook on submitted_notebook.id = grade.notebook_id "
    "join submitted_assignment on submitted_assignment.id = "
    "submitted_notebook.assignment_id where student_id = 'ada'"
)
print(json.dumps(dict(rows.fetchall())))
"""
HEAD = """\
# What each cheat gets from stock nbgrader

Written by `python tools/compare_with_nbgrader.py`. Each case of the corpus that tries
to earn points without a correct answer was graded twice: by stock `nbgrader autograde`
(all of it in a temporary sandbox), with the same checks written into cells as
nbgrader's courses have them, and by this course's grader (as
`tests/end_to_end/test_hostile.py` verifies).
Points are those of exercises that the submission does not solve. "no score" means that
the submission ended stock nbgrader's kernel, or the whole grading.

| case | what it does | stock nbgrader | here |
|---|---|---|---|
"""


def prepare(folder):
    """Makes a course folder as stock nbgrader has it; returns the lesson.

    Its checks are code in cells, as in other courses: see `in_stock_form`.
    """
    path = write_course(folder / "course")
    lesson = in_stock_form(read_lesson(path, "https://example.org/a/b"))
    course = folder / "class"
    make_course(course, root=folder / "course")
    (course / "nbgrader_config.py").write_text(STOCK)
    source = course / "source" / NAME / f"{NAME}.ipynb"
    source.write_text(dumps(without_grading_facts(lesson)))
    generate_assignment(course, NAME)
    return lesson


def stock_points(case, lesson, prepared):
    """Returns what stock nbgrader gives a case, by exercise; None where it fails."""
    with tempfile.TemporaryDirectory(prefix="stock-") as folder:
        course = Path(folder) / "class"
        shutil.copytree(prepared / "class", course)
        write(case, lesson, course / "submitted" / "ada" / NAME)
        for path in [course, *course.rglob("*")]:
            if not path.is_symlink():
                os.chmod(path, 0o777)  # inside, another user works on it
        script = 'cp -r /class /tmp && cd /tmp/class && exec "$0" -c "$1"'
        inside = ["sh", "-c", script, sys.executable]
        env = {"PYTHONPATH": "/tmp/class"}
        box = Box(LIMITS, read_only={"/class": course}, env=env)
        command = contained([*inside, INSIDE], box, backend())
        run = subprocess.run(command, capture_output=True, text=True, timeout=180)
    try:
        given = json.loads(run.stdout.splitlines()[-1])
        scores = {name: given[f"check-{name}"] for name in FULL}
    except (IndexError, ValueError, KeyError):
        return None
    if set(scores.values()) == {None}:
        return None
    return {name: score or 0 for name, score in scores.items()}


def row(case, given):
    """Writes a case's line of the table, and the undeserved points in it."""
    about = load(case.path).__doc__.strip().splitlines()[0]
    undeserved, text = 0, "no score"
    if given is not None:
        undeserved, text = over(case, given)
    here = over(case, case.points | case.believed)[1]
    if Status.NEEDS_REVIEW in case.statuses:
        here = "a person looks at it"
    return f"| {case.path.stem} | {about} | {text} | {here} |", undeserved


def over(case, given):
    """Counts the undeserved points among those that are given, and writes them."""
    points = sum(max(0, given[name] - case.points.get(name, 0)) for name in FULL)
    return points, f"**{points:g} undeserved**" if points else "0"


def main():
    """Prints a line for each case, and with `--write` writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cases; default: all cheats")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    options = parser.parse_args()
    cheats = [case for case in cases() if case.tampering]
    chosen = [c for c in cheats if c.path.stem in (options.names or [c.path.stem])]
    rows, fooled = [], 0
    with tempfile.TemporaryDirectory(prefix="stock-") as folder:
        lesson = prepare(Path(folder))
        # Without this a stock nbgrader that cannot run here would look incorruptible.
        [right] = (c for c in cases("harmless") if c.path.stem == "unexecuted")
        if stock_points(right, lesson, Path(folder)) != FULL:
            sys.exit("Stock nbgrader does not give a right submission its marks here.")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            given = pool.map(lambda c: stock_points(c, lesson, Path(folder)), chosen)
            for case, points in tqdm(
                zip(chosen, given, strict=True), total=len(chosen), disable=None
            ):
                line, undeserved = row(case, points)
                rows.append(line)
                fooled += undeserved > 0
                tqdm.write(line)
    summary = (
        f"\nStock nbgrader gives undeserved marks to {fooled} of {len(rows)} cases.\n"
    )
    print(summary)
    if options.write:
        TABLE.write_text(HEAD + "\n".join(rows) + "\n" + summary)


if __name__ == "__main__":
    main()
