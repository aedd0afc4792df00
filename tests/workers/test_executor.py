"""Jobs are graded in parallel, in an order that keeps judges warm, and retried."""

import itertools
import os
from concurrent.futures import Future
from types import SimpleNamespace

import psutil
import pytest

from grader.containment.limits import Limits
from grader.submissions.read_submission import SubmittedFile
from grader.workers.executor import grade_jobs, open_executor
from grader.workers.jobs import ExecutorError, Job

RECORD = SimpleNamespace()


class Executor:
    """Stands for this machine or a cluster: `work` is what grading does, at once."""

    def __init__(self, work=lambda job: RECORD, workers=1):
        self.work, self.workers = work, workers
        self.order, self.precompiled = [], set()

    def slots(self):
        return self.workers

    def submit(self, job, precompile):
        self.order.append(job.lesson)
        if precompile:
            self.precompiled.add(job.lesson)
        future = Future()
        try:
            future.set_result(self.work(job))
        except Exception as error:
            future.set_exception(error)
        return future


class SlowExecutor(Executor):
    """Finishes a job of the next lesson in `ends` once all its slots are taken."""

    def __init__(self, workers, ends):
        super().__init__(workers=workers)
        self.held, self.ends, self.most = [], iter(ends), 0

    def submit(self, job, precompile):
        self.order.append(job.lesson)
        self.held.append((job.lesson, future := Future()))
        self.most = max(self.most, len(self.held))
        while len(self.held) == self.workers and (lesson := next(self.ends, "")):
            ended = next(one for one in self.held if one[0] == lesson)
            self.held.remove(ended)
            ended[1].set_result(RECORD)
        return future


def jobs(text):
    """Makes jobs of lessons: "aab" are two of lesson a and one of b."""
    none = SubmittedFile(None)
    return [Job(str(n), lesson, none, {}) for n, lesson in enumerate(text)]


def test_a_worker_stays_with_a_lesson():
    executor = Executor()
    assert len([*grade_jobs(executor, jobs("abcabcab"))]) == 8
    assert executor.order == [*"bbbaaacc"]


def test_workers_start_with_different_lessons_and_stay_with_them():
    executor = SlowExecutor(workers=2, ends="abba")
    found = grade_jobs(executor, jobs("aaabbb"))
    assert len([*itertools.islice(found, 4)]) == 4
    assert sorted(executor.order[:2]) == ["a", "b"]
    assert executor.order[2:] == [*"abba"]


def test_a_lesson_of_six_jobs_is_compiled_first():
    executor = Executor()
    [*_] = grade_jobs(executor, jobs("a" * 6 + "b" * 5))
    assert executor.precompiled == {"a"}


def test_no_more_jobs_run_than_there_are_slots():
    executor = SlowExecutor(workers=2, ends="aaaa")
    found = grade_jobs(executor, jobs("aaaaa"))
    assert len([*itertools.islice(found, 4)]) == 4
    assert (executor.most, len(executor.order)) == (2, 5)


def test_the_next_job_starts_before_a_result_is_looked_at():
    executor = Executor()
    for finished in grade_jobs(executor, jobs("aa")):
        assert len(executor.order) == 2
        assert finished.record


def test_a_failed_job_is_retried_alone_after_all_others():
    tries = []

    def work(job):
        tries.append(job.student)
        if job.student == "0" and tries.count("0") == 1:
            raise OSError("no memory")
        return RECORD

    found = [one.job.student for one in grade_jobs(Executor(work, 2), jobs("aaa"))]
    assert sorted(found[:2]) == ["1", "2"] and found[2] == "0"
    assert tries.count("0") == 2


@pytest.mark.parametrize("error", [OSError("full"), ValueError("odd"), KeyError("x")])
def test_an_error_that_stays_is_reported_with_its_kind(error):
    def work(job):
        raise error

    executor = Executor(work)
    [one] = grade_jobs(executor, jobs("a"))
    assert one.error.startswith(type(error).__name__)
    assert len(executor.order) == 2


def test_an_unreadable_file_is_reported_and_never_submitted():
    executor = Executor()
    [one] = grade_jobs(executor, [Job("s", "a", OSError("it is gone"), {})])
    assert one.error == "OSError: it is gone"
    assert executor.order == []


def test_an_executor_that_gives_up_fails_each_job_that_is_left():
    class Gone(Executor):
        def slots(self):
            if self.order:
                raise ExecutorError("no worker")
            return 1

    found = {one.job.student: one for one in grade_jobs(Gone(), jobs("aaa"))}
    assert len(found) == 3
    assert {found[name].error for name in "01"} == {"no worker"}


def test_a_job_that_cannot_be_sent_costs_no_other_result():
    refuses = iter([False, True, False])

    class Refusing(Executor):
        def submit(self, job, precompile):
            if next(refuses):
                raise RuntimeError("not now")
            return super().submit(job, precompile)

    found = [*grade_jobs(Refusing(), jobs("aa"))]
    assert all(one.record for one in found) and len(found) == 2


def test_many_workers_finish_each_job_once():
    found = [
        one.job.student for one in grade_jobs(Executor(workers=8), jobs("ab" * 50))
    ]
    assert sorted(found) == sorted(map(str, range(100)))


def opened(workers=0, most=100):
    how = {"workers": workers, "most": most, "trusted": True}
    return open_executor({}, Limits(), "", **how)


@pytest.mark.parametrize(
    ("workers", "most", "gib", "count"),
    [
        (0, 100, 64, 4),
        (0, 3, 64, 3),
        (0, 100, 2.5, 2),
        (0, 100, 0.5, 1),
        (9, 100, 1, 9),
    ],
    ids=["cores", "submissions", "memory", "little memory", "option"],
)
def test_there_is_one_worker_per_core_if_memory_allows(
    monkeypatch, workers, most, gib, count
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3})
    memory = SimpleNamespace(available=int(gib * 2**30))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    with opened(workers, most) as executor:
        assert executor.slots() == count
