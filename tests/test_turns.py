"""Submissions that sleep leave processors to others."""

import queue
import threading
from types import SimpleNamespace

import psutil
import pytest

from grader import grading
from grader.containment import Limits
from grader.grading import Grading
from grader.jobs import Done, Job, Waiting
from grader.results import Outcome
from grader.turns import Turns

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
    again, at_work, most = busy(3.5), set(), []

    def work():
        at_work.add(threading.get_ident())
        most.append(len(at_work))
        assert again.wait(PATIENCE_S)
        at_work.discard(threading.get_ident())

    graded(monkeypatch, work, workers=1, spare=3)
    assert max(most) == 1


def test_the_last_begin_though_no_processor_idles(busy, monkeypatch):
    busy(4)
    together = threading.Barrier(3, timeout=PATIENCE_S)
    held = threading.Semaphore(1)

    def work():
        if not held.acquire(blocking=False):  # all but the first
            together.wait()

    graded(monkeypatch, work, workers=2, spare=2)


def test_who_is_done_goes_on_before_one_that_has_no_judge():
    turns = Turns(Waiting(JOBS), 1)
    first = turns.take("")

    def wait():
        with pytest.raises(queue.Empty):
            turns.take("")

    fresh = threading.Thread(target=wait, daemon=True)
    with turns.changed:
        fresh.start()
        assert turns.changed.wait_for(lambda: turns.free, PATIENCE_S)
    assert turns.take("a", Done(first)).lesson == "a"
    assert [turn.job for turn in turns.free] == [None]
    turns.close()
    fresh.join(PATIENCE_S)


def test_nothing_is_given_out_any_more_behind_the_end():
    turns = Turns(Waiting(JOBS), 2)
    turns.take("")
    turns.close()
    with pytest.raises(queue.Empty):
        turns.take("")


def result(outcome):
    """Makes a record of one exercise."""
    exercises = [SimpleNamespace(outcome=outcome)]
    return SimpleNamespace(result=SimpleNamespace(exercises=exercises), seconds=1.0)


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
