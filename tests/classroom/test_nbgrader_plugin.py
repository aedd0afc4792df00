"""A run of `nbgrader autograde` grades all of its submissions with the same judges."""

import gc
from concurrent.futures import Future

import pytest
import tiny
from classes import RIGHT, WRONG, make_class
from pretended import result_of, submit

from grader.classroom import nbgrader_plugin
from grader.classroom.nbgrader_plugin import GradingExporter
from grader.results import Record

NAME = tiny.NAME


@pytest.fixture
def executors(monkeypatch):
    """Replaces what grades; lists what each has graded, and when it was closed."""
    made = []

    class Executor:
        def __init__(self, lessons, limits):
            self.lessons, self.events = lessons, []
            made.append(self.events)

        def slots(self):
            return 1

        def submit(self, job, precompile):
            self.events.append(job.student)
            future, lesson = Future(), self.lessons[job.lesson]
            result = result_of(job.submitted, lesson)
            future.set_result(Record(job.key, job.hashes, result))
            return future

        def close(self):
            self.events.append("closed")

    monkeypatch.setattr(nbgrader_plugin, "LocalExecutor", Executor)
    return made


@pytest.fixture
def class_of_two(tmp_path, monkeypatch):
    make_class(tmp_path)
    submit(tmp_path, "ada", **RIGHT)
    submit(tmp_path, "bob", **WRONG)
    monkeypatch.chdir(tmp_path / "class")
    return tmp_path / "class"


def autograde(folder):
    """Does what one run of nbgrader's does with the exporter."""
    exporter = GradingExporter()
    for student in ("ada", "bob"):
        path = folder / "autograded" / student / NAME / f"{NAME}.ipynb"
        names = {"student": student, "assignment": NAME, "notebook": NAME}
        exporter.from_filename(str(path), {"nbgrader": names})


def test_one_executor_grades_all_submissions_of_a_run(class_of_two, executors):
    autograde(class_of_two)
    gc.collect()  # the run is over
    assert executors == [["ada", "bob", "closed"]]


def test_none_is_opened_where_all_has_been_graded(class_of_two, executors):
    autograde(class_of_two)
    autograde(class_of_two)
    assert len(executors) == 1
