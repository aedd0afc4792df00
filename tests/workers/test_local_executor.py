"""Submissions that sleep leave CPUs to others; without spare jobs each has its own."""

import contextlib
import os
import threading
from types import SimpleNamespace

import psutil
import pytest

from grader.containment.limits import Limits
from grader.results import Outcome
from grader.submissions.read_submission import SubmittedFile
from grader.workers import cpu_affinity
from grader.workers.executor import grade_jobs
from grader.workers.job_grader import JobGrader
from grader.workers.jobs import Job
from grader.workers.local_executor import LocalExecutor

PATIENCE_S = 60
JOBS = [Job(str(number), "a", SubmittedFile(None), {}) for number in range(4)]
EXERCISE = SimpleNamespace(outcome=Outcome.PASSED)
RECORD = SimpleNamespace(result=SimpleNamespace(exercises=[EXERCISE]))


@pytest.fixture
def busy(monkeypatch):
    """Sets how many of four CPUs are busy; returns an event: looked at again."""

    def set_to(number):
        asked, again = [], threading.Event()

        def percent():
            asked.append(number)
            if len(asked) > 3:
                again.set()
            return number * 25

        monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
        monkeypatch.setattr(psutil, "cpu_percent", percent)
        return again

    return set_to


@pytest.fixture
def graded(monkeypatch):
    """Grades four submissions, each by `work`."""

    def run(work, **workers):
        monkeypatch.setattr(JobGrader, "grade", lambda self, job: (work(), RECORD)[1])
        executor = LocalExecutor({}, Limits(), trusted=True, **workers)
        with contextlib.closing(executor):
            finished = [*grade_jobs(executor, JOBS)]
        assert {one.job for one in finished} == {*JOBS}
        assert all(one.record for one in finished)

    return run


def test_while_cpus_idle_spare_jobs_begin(busy, graded):
    busy(1)
    together = threading.Barrier(4, timeout=PATIENCE_S)  # each waits for all the others
    graded(together.wait, workers=1, spare=3)


def test_while_none_idles_they_wait(busy, graded):
    again, at_work, most = busy(3.5), set(), []

    def work():
        at_work.add(threading.get_ident())
        most.append(len(at_work))
        assert again.wait(PATIENCE_S)
        at_work.discard(threading.get_ident())

    graded(work, workers=1, spare=3)
    assert max(most) == 1


def test_the_last_begin_though_no_cpu_idles(busy, graded):
    busy(4)
    together = threading.Barrier(3, timeout=PATIENCE_S)
    held = threading.Semaphore(1)

    def work():
        if not held.acquire(blocking=False):  # all but the first
            together.wait()

    graded(work, workers=2, spare=2)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux binds threads")
def test_without_spare_jobs_each_worker_has_a_cpu_of_its_own(graded, monkeypatch):
    monkeypatch.setattr(cpu_affinity, "NAME", f"\0local-{os.getpid()}-{{}}")
    whole, seen = os.sched_getaffinity(0), []
    workers = min(2, len(whole))
    together = threading.Barrier(workers, timeout=PATIENCE_S)

    def work():
        together.wait()
        seen.append(tuple(os.sched_getaffinity(0)))

    for _ in range(2):  # what was held is free again
        graded(work, workers=workers)
    assert {len(cpus) for cpus in seen} == {1} and len({*seen}) >= workers
    assert os.sched_getaffinity(0) == whole


def test_when_nobody_asks_any_more_nothing_more_begins(busy, monkeypatch):
    busy(4)
    begun = []
    monkeypatch.setattr(JobGrader, "grade", lambda self, job: begun.append(job))
    executor = LocalExecutor({}, Limits(), workers=1, trusted=True)
    with contextlib.closing(executor):
        found = grade_jobs(executor, JOBS)
        next(found, None)
    assert len(begun) < len(JOBS)
