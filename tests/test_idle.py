"""Submissions that sleep leave processors to others."""

import threading
from types import SimpleNamespace

import psutil
import pytest

from grader import grading
from grader.containment import Limits
from grader.grading import Grading
from grader.jobs import Done, Job
from grader.results import Outcome

PATIENCE_S = 60
JOBS = [Job(str(number), "a", None, {}) for number in range(4)]


@pytest.fixture
def busy(monkeypatch):
    """Sets how many of four processors are busy; returns an event: asked again."""

    def set_to(number):
        asked, again = [], threading.Event()

        def percent(interval):
            asked.append(interval)
            if len(asked) > 1:
                again.set()
            return number * 25

        monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
        monkeypatch.setattr(psutil, "cpu_percent", percent)
        return again

    return set_to


def graded(monkeypatch, work, **workers):
    """Grades four submissions, each by `work`."""

    def grade(self, job):
        work()
        return Done(job)

    monkeypatch.setattr(grading.Worker, "grade", grade)
    done = [*Grading({}, Limits(), trusted=True, **workers).run(JOBS)]
    assert {one.job for one in done} == {*JOBS}


def test_while_processors_idle_spare_workers_begin(busy, monkeypatch):
    busy(1)
    together = threading.Barrier(4, timeout=PATIENCE_S)  # each waits for all the others
    graded(monkeypatch, together.wait, workers=1, spare=3)


def test_while_none_idles_they_wait(busy, monkeypatch):
    again, names = busy(3.5), set()

    def work():
        names.add(threading.current_thread().name)
        assert again.wait(PATIENCE_S)

    graded(monkeypatch, work, workers=2, spare=2)
    assert names == {"grader-0", "grader-1"}


def result(outcome):
    """Makes a record of one exercise."""
    exercises = [SimpleNamespace(outcome=outcome)]
    return SimpleNamespace(result=SimpleNamespace(exercises=exercises))


def test_what_took_too_long_beside_them_is_tried_without_them(busy, monkeypatch):
    busy(1)
    together, tries = threading.Barrier(4, timeout=PATIENCE_S), []

    def grade(self, job):
        tries.append((job.student, self.grading.spare))
        if len(tries) <= 4:
            together.wait()
        late = job.student in "13" and self.grading.spare
        return Done(job, result(Outcome.TIMED_OUT if late else Outcome.PASSED))

    monkeypatch.setattr(grading.Worker, "grade", grade)
    run = Grading({}, Limits(), workers=1, spare=3, trusted=True).run(JOBS)
    assert sorted(one.job.student for one in run if not one.took_too_long) == [*"0123"]
    assert sorted(tries[4:]) == [("1", 0), ("3", 0)]


def test_a_time_limit_without_them_is_the_submissions_fault(monkeypatch):
    tries = []

    def grade(self, job):
        tries.append(job.student)
        return Done(job, result(Outcome.TIMED_OUT))

    monkeypatch.setattr(grading.Worker, "grade", grade)
    [*run] = Grading({}, Limits(), workers=2, trusted=True).run(JOBS)
    assert all(one.took_too_long for one in run)
    assert sorted(tries) == [*"0123"]
