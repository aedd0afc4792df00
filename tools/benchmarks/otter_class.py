"""Grades a course folder by otter-grader, with this course's checks as its tests.

As `otter run` does: one submission after the other, each in a kernel of its own,
without the containers that `otter grade` would start. Printed is, as JSON,
{submission: {check: points}}. `python tools/benchmarks/otter_class.py FOLDER`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import nbformat
from otter.api import grade_submission

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "lessons")]

from grader.classroom.folder import Classroom
from grader.lessons.release import checks, hidden_source, nbgrader_metadata

TEST = """\
OK_FORMAT = False

from otter.test_files import test_case

name = {name!r}
points = {points}


@test_case(points={points})
def test(env):
    exec({hidden!r}, env)
    score = float(env["check"](name))
    assert score == points, f"{{score:g}} of {{points}} points"
"""


def write_tests(lesson: Any, path: Path) -> None:
    """Writes otter's zip of a lesson: a test per check, hidden cases included.

    Such a test gives all of its points or none.
    """
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("otter_config.json", "{}")
        for name, cell in checks(lesson).items():
            facts = {"name": name, "points": nbgrader_metadata(cell)["points"]}
            test = TEST.format(hidden=hidden_source(cell), **facts)
            archive.writestr(f"tests/{name}.py", test)


def without_checks(path: Path, lesson: Any) -> Any:
    """Reads a submission without the cells that became otter's tests."""
    notebook = nbformat.read(path, as_version=4)
    ids = {cell.metadata.nbgrader["grade_id"] for cell in checks(lesson).values()}
    notebook.cells = [
        cell
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id") not in ids
    ]
    return notebook


def main() -> None:
    """Grades all and prints the points."""
    classroom, found = Classroom(Path(sys.argv[1])), {}
    os.environ["PYTHONPATH"] = str(ROOT / "lessons")  # where kernels find our modules
    with tempfile.TemporaryDirectory() as folder:
        for submission in classroom.submissions():
            name = submission.lesson
            lesson, archive = classroom.lessons[name], Path(folder, f"{name}.zip")
            if not archive.exists():
                write_tests(lesson, archive)
            path = Path(folder, f"{name}.ipynb")
            own = submission.folder / path.name
            nbformat.write(without_checks(own, lesson), path)
            with contextlib.redirect_stderr(io.StringIO()):
                results = grade_submission(str(path), str(archive), quiet=True)
            points = {check: results.get_score(check) for check in checks(lesson)}
            found[f"{submission.student} {name}"] = points
    print(json.dumps(found))


if __name__ == "__main__":
    main()
