"""A class's folder works on, also one that an earlier version of the course made."""

import re
import subprocess
import sys

import nbformat
import pytest
import tiny
from classes import RIGHT, WRONG, answered, hand_in, make_class
from nbgrader.api import Gradebook
from servers import jupyter_env

from grader import ROOT
from grader.authoring.notebook import dumps
from grader.classroom.course import make_course
from grader.classroom.folder import Classroom
from grader.classroom.grade import grade

# What nbgrader_config.py said in class folders that were made before December 2026.
BEFORE = '''\
"""nbgrader's settings for this course; `nbgrader --help-all` explains each."""

import sys

sys.path.insert(0, {root!r})  # the course's repository, which has grader/
from grader.exporter import GradingExporter
from grader.notebooks import RELEASE_CONFIG
from traitlets.config import Config

c = get_config()
c.merge(Config(RELEASE_CONFIG))  # the stub and the locks that lessons/ have too
c.CourseDirectory.course_id = "distributed-jax"
# `nbgrader autograde` grades as `python -m grader grade` does: contained, and judged
# by another process than the learner's.
c.Autograde.exporter_class = GradingExporter
# zip_collect takes files that are named as this: ada_01_pmap_spmd.ipynb.
c.FileNameCollectorPlugin.named_regexp = (
    r".*[/\\\\](?P<student_id>[^/\\\\]+)_(?P<file_id>[0-9][0-9]_\\w+)\\.ipynb"
)
'''
NOW = "2026-12-02T03:04:05+00:00"


def nbgrader(folder, *arguments):
    command = [sys.executable, "-m", "nbgrader", *arguments]
    env = jupyter_env(folder.parent / "jupyter")
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_stock_autograde_and_our_grade_take_earlier_settings(tmp_path, contained_here):
    lesson, folder = make_class(tmp_path), tmp_path / "class"
    (folder / "nbgrader_config.py").write_text(BEFORE.format(root=str(ROOT)))
    hand_in(tmp_path, "ada", answered(lesson, **RIGHT))
    nbgrader(folder, "generate_assignment", tiny.NAME)
    nbgrader(folder, "autograde", tiny.NAME)
    hand_in(tmp_path, "bob", answered(lesson, **WRONG))
    told = []
    assert grade(folder, now=NOW, workers=1, say=told.append) == 0
    assert told[0].startswith("2 submissions: 1 graded before, 1 to grade")
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "distributed-jax") as book:
        found = book.assignment_submissions(tiny.NAME)
        assert {one.student.id: one.score for one in found} == {"ada": 3, "bob": 2}


EARLIER_SET_UP = "import sys\n\nimport start\n\nstart.with_devices(8)\n"


def made_earlier(folder, name):
    """Gives a lesson of a class the set-up cell that it had before December 2026."""
    path = folder / "source" / name / f"{name}.ipynb"
    lesson = nbformat.read(path, as_version=4)
    next(cell for cell in lesson.cells if cell.id == "setup").source = EARLIER_SET_UP
    nbformat.write(lesson, path)


def test_lessons_of_an_earlier_version_are_graded_by_todays(tmp_path):
    make_course(tmp_path / "class")
    name = "02_collectives"
    today = Classroom(tmp_path / "class").lesson(name)
    made_earlier(tmp_path / "class", name)
    assert dumps(Classroom(tmp_path / "class").lesson(name)) == dumps(today)


def test_an_earlier_lesson_that_is_not_todays_any_more_names_the_remedy(tmp_path):
    make_class(tmp_path)
    made_earlier(tmp_path / "class", tiny.NAME)
    remedy = f"python -m grader course {tmp_path / 'class'} --update"
    with pytest.raises(ValueError, match=re.escape(remedy)):
        grade(tmp_path / "class", now=NOW)
