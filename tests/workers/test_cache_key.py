"""A result's key changes with what decides the grade, and with nothing else."""

import json
import shutil
import subprocess
import sys

import nbformat
import printed
import pytest
import tiny

from grader import ROOT
from grader.authoring.lesson import read_lesson
from grader.containment.limits import Limits
from grader.kernel.session import Session
from grader.workers.cache_key import (
    deciding_modules,
    key_of,
    lesson_hashes,
    without_check,
)

LESSON = nbformat.v4.new_notebook()


@pytest.fixture
def course(tmp_path):
    """A copy of the grader and of the package that notebooks import."""
    skip = shutil.ignore_patterns("__pycache__")
    for name in ("grader", "lessons/coursekit"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=skip)
    return tmp_path


def deciding(course):
    return [path.read_bytes() for path in deciding_modules(course)]


def edit(path):
    assert path.is_file(), path
    path.write_text(path.read_text() + "\n# edited\n")


@pytest.mark.parametrize(
    "name",
    [
        "pages/feedback.py",
        "pages/terminal.py",
        "classroom/export.py",
        "classroom/publishing.py",
        "authoring/new.py",
        "authoring/build.py",
        "learner/progress.py",
        "workers/executor.py",
        "__main__.py",
    ],
)
def test_an_edit_of_what_only_shows_grades_regrades_nothing(course, name):
    before = deciding(course)
    edit(course / "grader" / name)
    assert deciding(course) == before


@pytest.mark.parametrize(
    "name",
    [
        "submissions/read_submission.py",
        "submissions/answers.py",
        "containment/box.py",
        "containment/inside/box_init.py",
        "kernel/session.py",
        "kernel/inside/wire.py",
        "judging/trial.py",
        "judging/judge.py",
        "judging/exported_program.py",
        "results.py",
        "lessons/release.py",  # which releases lessons and finds exercises
    ],
)
def test_an_edit_of_what_decides_regrades(course, name):
    before = deciding(course)
    edit(course / "grader" / name)
    assert deciding(course) != before


@pytest.mark.parametrize("name", ["expect.py", "setup.py", "draw/array.py"])
def test_an_edit_of_what_notebooks_import_regrades(course, name):
    before = lesson_hashes(LESSON, Limits(), course)
    edit(course / "lessons/coursekit" / name)
    after = lesson_hashes(LESSON, Limits(), course)
    assert key_of(after) != key_of(before)
    assert after["grader"] == before["grader"]


def test_an_edit_of_translated_messages_regrades_nothing(course):
    before = lesson_hashes(LESSON, Limits(), course)
    edit(course / "lessons/coursekit/messages_ko.py")
    assert lesson_hashes(LESSON, Limits(), course) == before


def test_copies_of_checks_regrade_nothing_and_what_runs_them_regrades(course):
    """A lesson's checks are part of the lesson, which has a hash of its own."""
    folder = course / "lessons/coursekit/checks"
    (folder / "01_tiny.py").write_text("x = 1\n")
    before = lesson_hashes(LESSON, Limits(), course)
    edit(folder / "01_tiny.py")
    assert lesson_hashes(LESSON, Limits(), course) == before
    edit(folder / "__init__.py")
    assert lesson_hashes(LESSON, Limits(), course) != before


@pytest.mark.parametrize(
    "old, new",
    [
        ("observe(double, 3), 6", "observe(double, 4), 8"),
        ("observe(double, -7), -14", "observe(double, -8), -16"),
        ("points=1", "points=2"),
    ],
    ids=["visible", "hidden", "points"],
)
def test_an_edit_of_one_lessons_checks_regrades_that_lesson_alone(tmp_path, old, new):
    first = tiny.write_course(tmp_path / "course")
    second = first.with_name("02_more.py")
    second.write_text(tiny.SOURCE)
    checks = first.parent / "checks"
    (checks / second.name).write_text(tiny.CHECKS)

    def hashes(path):
        lesson = read_lesson(path, tiny.REPOSITORY)
        return lesson_hashes(lesson, Limits(), tmp_path / "course")

    before = hashes(first), hashes(second)
    (checks / second.name).write_text(tiny.changed(tiny.CHECKS, (old, new)))
    assert hashes(first) == before[0]
    after = hashes(second)
    assert after.pop("lesson") != before[1].pop("lesson")
    assert after.pop("checks") != before[1].pop("checks")
    assert after == before[1]


@pytest.mark.parametrize(
    ("old", "new", "is_alone"),
    [
        ("observe(double, 3), 6", "observe(double, 4), 8", True),
        ("observe(double, -7), -14", "observe(double, -8), -16", True),
        ("observe(negate, 3), -3", "observe(negate, 4), -4", False),
        ("points=1", "points=2", False),  # of the lesson, too
        ('"""Checks of', '"""The checks of', False),
    ],
    ids=["visible", "hidden", "other", "points", "common"],
)
def test_a_change_of_one_check_is_known_as_such(tmp_path, old, new, is_alone):
    def hashes(folder, *changes):
        checks = tiny.changed(tiny.CHECKS, *changes)
        return lesson_hashes(tiny.lesson(tmp_path / folder, checks=checks), Limits())

    before, after = hashes("before"), hashes("after", (old, new))
    same = without_check(before, "double") == without_check(after, "double")
    assert (same, before == after) == (is_alone, False)


def test_a_limit_and_the_lesson_decide_too():
    before = lesson_hashes(LESSON, Limits())
    assert lesson_hashes(LESSON, Limits(wall_s=61)) != before
    other = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x")])
    assert lesson_hashes(other, Limits()) != before


LISTED = (
    "import json, sys; print(json.dumps(sorted(str(m.__file__) for n, m in "
    "sys.modules.items() if n.split('.')[0] == 'grader' and "
    "getattr(m, '__file__', None))))"
)


def test_whatever_a_judge_imports_decides():
    words = [sys.executable, "-c", f"import grader.judging.judge; {LISTED}"]
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'lessons'}", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    found = {*json.loads(done.stdout)}
    assert len(found) > 10
    places = {str(path) for path in deciding_modules(ROOT)}
    packages = {place for place in found if place.endswith("__init__.py")}
    assert found - packages <= places


def test_whatever_a_learners_process_imports_decides(contained_here):
    with Session(Limits()) as session:
        responder = "import grader.kernel.inside.responder"
        found = json.loads(printed.run(session, f"{responder}\n{LISTED}").text)
    places = {
        f"/tmp/course/{path.relative_to(ROOT)}" for path in deciding_modules(ROOT)
    }
    found = {place for place in found if not place.endswith("__init__.py")}
    assert found and found <= places
