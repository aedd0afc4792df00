"""An instructor grades a class, asks why, exports, regrades and removes learners."""

import csv
import datetime
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import zipfile

import nbformat
import pytest
import tiny
from classes import RIGHT, WRONG, answered, hand_in, is_trusted, make_class, printed
from nbgrader.api import Gradebook
from pretended import pretended

from grader import ROOT, CourseError
from grader.classroom.explain import explain
from grader.classroom.export import export
from grader.classroom.grade import grade, regrade
from grader.classroom.purge import purge
from grader.classroom.returning import return_feedback
from grader.containment.limits import ContainmentError, Limits
from grader.judging.judge_process import JudgeError
from grader.workers import jobs, local_executor

__all__ = ["pretended"]  # a fixture
NAME = tiny.NAME


def run(command, *arguments, **options):
    if command in (grade, regrade):
        options = {"trusted": is_trusted(), "workers": 2} | options
    return printed(command, *arguments, **options)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class of four, graded: one right, one half, one without work, one damaged."""
    folder = tmp_path_factory.mktemp("graded")
    lesson = make_class(folder)
    hand_in(folder, "ada", answered(lesson, **RIGHT))
    hand_in(folder, "bob", answered(lesson, **WRONG))
    hand_in(folder, "cleo", answered(lesson))
    hand_in(folder, "dan", b"<html>Log in</html>")
    (folder / "class" / "submitted" / "ada" / "99_else").mkdir()
    status, lines = run(grade, folder / "class")
    return folder, status, lines


@pytest.fixture
def class_of_four(graded, tmp_path):
    """A copy of that class, to be changed."""
    shutil.copytree(graded[0], tmp_path / "copy")
    return tmp_path / "copy"


def marks(folder):
    with Gradebook(
        f"sqlite:///{folder / 'class' / 'gradebook.db'}", "distributed-jax"
    ) as book:
        return {
            s.student.id: {g.name: g.auto_score for g in s.notebooks[0].grades}
            for s in book.assignment_submissions(NAME)
        }


def test_table_counts_every_submission_once(graded):
    _folder, status, lines = graded
    assert status == 0
    assert lines[0] == "left alone: submitted/ada/99_else"
    assert lines[1].startswith("4 submissions: 0 graded before, 4 to grade with 2")
    table = dict(line.split() for line in lines.text.split("\n\n")[-1].splitlines()[:6])
    assert table == {
        "GRADED": "3",
        "GRADED_WITH_NOTE": "0",
        "STUDENT_ERROR": "1",
        "NEEDS_REVIEW": "0",
        "INFRA_ERROR": "0",
        "total": "4",
    }


def test_gradebook_has_the_marks(graded):
    assert marks(graded[0]) == {
        "ada": {"check-double": 1, "check-negate": 2},
        "bob": {"check-double": 0, "check-negate": 2},
        "cleo": {"check-double": 0, "check-negate": 0},
        "dan": {"check-double": 0, "check-negate": 0},
    }


def test_a_bonus_adds_points_and_leaves_the_maximum(tmp_path):
    mark = 'points=2, essential=["negative"]'
    checks = tiny.changed(tiny.CHECKS, (mark, f"{mark}, bonus=True"))
    lesson = make_class(tmp_path, checks=checks)
    hand_in(tmp_path, "ada", answered(lesson, **RIGHT))
    hand_in(tmp_path, "bob", answered(lesson, double=RIGHT["double"]))
    status, lines = run(grade, tmp_path / "class")
    assert status == 0
    assert "  1 of 1 and 2 bonus points  " in lines.text
    with Gradebook(
        f"sqlite:///{tmp_path / 'class' / 'gradebook.db'}", "distributed-jax"
    ) as book:
        found = [book.find_submission(NAME, who) for who in ("ada", "bob")]
        assert [(one.score, one.max_score) for one in found] == [(3, 1), (1, 1)]
    path = tmp_path / "grades.csv"
    export(tmp_path / "class", path)
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [(row["score"], row["max_score"]) for row in rows] == [
        ("3", "1"),
        ("1", "1"),
    ]


def test_pages_and_autograded_notebooks_are_there_without_hidden_tests(graded):
    folder = graded[0] / "class"
    for student in ("ada", "bob", "cleo", "dan"):
        page = folder / "feedback" / student / NAME / f"{NAME}.html"
        notebook = folder / "autograded" / student / NAME / f"{NAME}.ipynb"
        nbformat.validate(nbformat.read(notebook, as_version=4))
        for text in (page.read_text(), notebook.read_text()):
            assert "observe(double, -7)" not in text and "HIDDEN" not in text


def test_grading_again_runs_nothing(graded, monkeypatch):
    monkeypatch.setattr(local_executor, "grade_submission", None)
    before = {p: p.stat().st_mtime_ns for p in (graded[0] / "class").rglob("*.html")}
    status, lines = run(grade, graded[0] / "class")
    assert status == 0
    assert lines[1].startswith("4 submissions: 4 graded before, 0 to grade")
    reports = {path for path in before if "report" in path.parts}
    for path in before.keys() - reports:
        assert path.stat().st_mtime_ns == before[path]


def test_same_bytes_of_another_learner_are_graded_once_and_reported_for_each(
    class_of_four, monkeypatch
):
    folder = class_of_four
    monkeypatch.setattr(local_executor, "grade_submission", None)
    path = folder / "class" / "submitted" / "ada" / NAME / f"{NAME}.ipynb"
    hand_in(folder, "bob", path.read_bytes())
    _, lines = run(grade, folder / "class")
    assert "bob 01_tiny: double: wrong, 0 -> right, 1" in lines
    assert marks(folder)["bob"] == {"check-double": 1, "check-negate": 2}
    lines = run(explain, folder / "class", "bob", "1")[1].text
    assert lines.count("  graded ") == 2


def test_explain_says_by_what_when_and_why(graded):
    status, lines = run(explain, graded[0] / "class", "bob", "1")
    assert status == 0
    assert lines[0] == "bob 01_tiny: GRADED            2 of 3"
    assert "double: 0 of 1" not in lines.text
    words = " ".join(lines.text.split())
    assert "double wrong 0 of 1 point ✗ twice essential The result is wrong." in words
    assert "called double(3) seen 3 expected 6" in words
    assert "negate right 2 of 2 points ✓ negative essential" in words
    assert re.search(r"\b20\d\d-\d\d-\d\d \d\d:\d\d UTC graded GRADED 2\b", words)
    for name in ("submission", "lesson", "grader", "packages"):
        assert f"  {name:<11}" in lines.text
    assert "web page" in run(explain, graded[0] / "class", "dan", NAME)[1].text


def test_a_reader_that_has_enough_of_it_ends_the_output_in_silence(graded):
    command = [
        sys.executable,
        "-m",
        "grader",
        "explain",
        graded[0] / "class",
        "bob",
        "1",
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as run:
        run.stdout.close()
        assert run.stderr.read() == b""


def test_explain_of_nothing_names_what_was_asked(graded):
    with pytest.raises(ValueError, match=r'There is no "adda" in .* Similar: ada'):
        explain(graded[0] / "class", "adda", "1")
    with pytest.raises(ValueError, match='no lesson "2"'):
        explain(graded[0] / "class", "ada", "2")


def test_exports_join_names_and_are_the_same_each_time(class_of_four):
    folder = class_of_four / "class"
    (folder / "grading" / "people.csv").write_text("id,name\nada,Ada Lovelace\n")
    run(export, folder)
    first = (folder / "grading" / "grades.csv").read_bytes()
    assert b"Ada Lovelace" in first
    run(export, folder)
    assert (folder / "grading" / "grades.csv").read_bytes() == first


def test_purge_lists_then_removes_every_trace_but_the_log(class_of_four):
    folder = class_of_four / "class"
    log = (folder / "grading" / "audit.jsonl").read_bytes()
    run(export, folder)
    _, lines = run(purge, folder, ["ada"])
    assert f"would remove {folder / 'grading' / 'grades.csv'}" in lines
    assert lines[-1].startswith("Nothing was removed")
    assert (folder / "submitted" / "ada").exists()
    _, lines = run(purge, folder, ["ada"], apply=True)
    left = [str(p) for p in folder.rglob("*") if "ada" in p.parts]
    assert left == [] and "ada" not in marks(class_of_four)
    kept = [p for p in (folder / "grading").rglob("*") if p.suffix in (".csv", ".html")]
    assert not any(re.search(r"\bada\b", path.read_text()) for path in kept)
    assert (folder / "grading" / "audit.jsonl").read_bytes().startswith(log)
    assert set(marks(class_of_four)) == {"bob", "cleo", "dan"}
    with pytest.raises(ValueError, match='There is no "ada"'):
        purge(folder, ["ada"])
    database = sqlite3.connect(folder / "gradebook.db").iterdump()
    assert not any("'ada'" in line for line in database)


class Faulty:
    """Stands for grade_submission: fails for some bytes as often as it is asked to."""

    def __init__(self, needle, times):
        self.needle, self.times = needle, times
        self.real = local_executor.grade_submission

    def __call__(self, submitted, *arguments, **options):
        if self.needle in submitted.data and self.times:
            self.times -= 1
            raise JudgeError("the judge fell ill")
        return self.real(submitted, *arguments, **options)


@pytest.fixture
def class_of_two(tmp_path):
    lesson = make_class(tmp_path)
    marked = {**RIGHT, "double": RIGHT["double"] + "  # the unlucky one"}
    hand_in(tmp_path, "ada", answered(lesson, **RIGHT))
    hand_in(tmp_path, "eve", answered(lesson, **marked))
    return tmp_path


def test_our_fault_is_tried_again_alone(class_of_two, monkeypatch):
    monkeypatch.setattr(local_executor, "grade_submission", Faulty(b"unlucky", 1))
    status, _lines = run(grade, class_of_two / "class")
    assert status == 0
    assert marks(class_of_two)["eve"] == {"check-double": 1, "check-negate": 2}


def test_fault_that_stays_with_a_submission_is_reported_and_costs_no_other(
    class_of_two, monkeypatch
):
    monkeypatch.setattr(local_executor, "grade_submission", Faulty(b"unlucky", 9))
    status, lines = run(grade, class_of_two / "class")
    assert status == 1
    assert "INFRA_ERROR           1" in lines.text
    assert "JudgeError: the judge fell ill" in lines.text
    assert marks(class_of_two) == {"ada": {"check-double": 1, "check-negate": 2}}


def test_machine_that_cannot_grade_is_our_fault_and_costs_no_points(
    class_of_two, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(local_executor, "grade_submission", Faulty(b"", 99))
        status, lines = run(grade, class_of_two / "class")
    assert status == 1
    assert "INFRA_ERROR           2" in lines.text and "fix it and run" in lines.text
    assert marks(class_of_two) == {}
    status, lines = run(grade, class_of_two / "class")
    assert status == 0 and "GRADED                2" in lines.text


def test_worker_that_cannot_start_is_our_fault_and_no_silence(
    class_of_two, monkeypatch
):
    def broken(*_, **__):
        raise MemoryError("no room for a judge")

    monkeypatch.setattr(local_executor, "JudgeProcess", broken)
    status, lines = run(grade, class_of_two / "class")
    assert status == 1
    assert "INFRA_ERROR           2" in lines.text


def test_refusal_on_the_command_line_is_a_text_and_no_traceback(class_of_two):
    command = [sys.executable, "-m", "grader", "grade", str(class_of_two / "class")]
    env = os.environ | {"PATH": str(class_of_two / "nothing-is-here")}
    child = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert child.returncode == 2
    assert "bwrap is not installed" in child.stderr and "--trusted" in child.stderr
    assert "Traceback" not in child.stderr


def test_file_that_this_machine_cannot_read_is_our_fault(class_of_two, monkeypatch):
    def broken(path, name):
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr(jobs, "read_submission", broken)
    status, lines = run(grade, class_of_two / "class")
    assert status == 1
    assert "INFRA_ERROR           2" in lines.text
    assert marks(class_of_two) == {}


def test_without_containment_untrusted_code_is_refused(class_of_two, monkeypatch):
    def nothing(*_):
        raise ContainmentError("nothing here")

    monkeypatch.setattr(local_executor, "backend", nothing)
    with pytest.raises(ContainmentError):
        run(grade, class_of_two / "class", trusted=False)
    assert not (class_of_two / "class" / "grading" / "results").exists()


def test_two_gradings_of_a_class_exclude_each_other(class_of_two):
    from grader.classroom.folder import Classroom

    with Classroom(class_of_two / "class").store.writing():
        with pytest.raises(CourseError, match="in use by another grading"):
            run(grade, class_of_two / "class")


def test_a_download_is_graded_and_returned_under_its_names(tmp_path, pretended):
    lesson = make_class(tmp_path)
    with zipfile.ZipFile(tmp_path / "canvas.zip", "w") as archive:
        for name, answers in (
            ("lovelaceada_12345_91234", RIGHT),
            ("bobb_LATE_12346_91235", WRONG),
        ):
            text = nbformat.writes(answered(lesson, **answers))
            archive.writestr(f"{name}_{NAME}.ipynb", text)
    status, lines = run(grade, tmp_path / "class", [tmp_path / "canvas.zip"])
    assert status == 0
    assert "2 files: 2 count." in lines
    run(export, tmp_path / "class")
    path = tmp_path / "class/grading/grades.csv"
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [(r["student"], r["score"]) for r in csv.DictReader(file)]
    assert rows == [("12345", "3"), ("12346", "2")]
    back = tmp_path / "back.zip"
    run(return_feedback, tmp_path / "class", "01", "canvas", back)
    with (
        zipfile.ZipFile(tmp_path / "canvas.zip") as came,
        zipfile.ZipFile(back) as goes,
    ):
        assert goes.namelist() == came.namelist()


def test_folder_that_is_no_class_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere is no course folder"):
        run(grade, tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no course folder.*grader course"):
        run(export, tmp_path)


def test_log_traces_each_grade_to_its_hashes(graded):
    log = (graded[0] / "class/grading/audit.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in log]
    assert {entry["student"] for entry in entries} == {"ada", "bob", "cleo", "dan"}
    for entry in entries:
        at = datetime.datetime.fromisoformat(entry["at"])
        age = datetime.datetime.now(datetime.UTC) - at
        assert 0 <= age.total_seconds() < 3600
        assert len(entry["key"]) == 64
        assert set(entry["hashes"]) == {
            *("submission", "lesson", "checks", "seed", "grader", "packages")
        }


def test_an_interrupt_ends_the_command_at_once_and_says_that_work_is_saved(
    tmp_path, contained_here
):
    lesson = make_class(tmp_path)
    endless = "def double(x):\n    while True:\n        pass"
    hand_in(tmp_path, "ada", answered(lesson, double=endless))
    words = [sys.executable, "-u", "-m", "grader", "grade", tmp_path / "class"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, cwd=ROOT, **pipes) as process:
        line = next(line for line in process.stdout if "to grade" in line)
        assert line.startswith("1 submissions: 0 graded before, 1 to grade")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "Stopped. What is finished is saved." in said
    assert "Traceback" not in said
    assert grade(tmp_path / "class", limits=Limits(wall_s=1)) == 0
