"""This machine grades jobs in parallel, with a warm judge for each lesson in work."""

import contextlib
import threading
from types import SimpleNamespace

import psutil
import pytest
import tiny

from grader.atomic_files import write
from grader.containment.limits import Limits
from grader.lessons.release import dumps, without_hidden
from grader.submissions.read_submission import SubmittedFile
from grader.workers import local_executor
from grader.workers.executor import grade_jobs
from grader.workers.jobs import Job
from grader.workers.local_executor import LocalExecutor


def jobs(text):
    """Makes jobs of lessons: "aab" are two of lesson a and one of b."""
    none = SubmittedFile(None)
    return [Job(str(n), lesson, none, {}) for n, lesson in enumerate(text)]


def opened(workers, spare=0):
    lessons, how = {"a": "a", "b": "b"}, {"spare": spare, "trusted": True}
    return contextlib.closing(LocalExecutor(lessons, Limits(), workers=workers, **how))


@pytest.fixture
def judges(monkeypatch):
    """Replaces judges; lists what happens to them."""
    events = []

    class Judge:
        compiled = None

        def __init__(self, lesson, **more):
            self.lesson = lesson
            events.append(f"start {lesson}")

        def close(self):
            events.append(f"end {self.lesson}")

        def keep_known(self):
            pass

    monkeypatch.setattr(local_executor, "JudgeProcess", Judge)
    return events


@pytest.fixture
def grading(monkeypatch):
    """Replaces the grading of a submission."""

    def replace(work):
        monkeypatch.setattr(local_executor, "grade_submission", work)

    replace(lambda *arguments, **more: SimpleNamespace())
    return replace


def test_workers_grade_in_parallel(judges, grading):
    together = threading.Barrier(2, timeout=60)
    grading(lambda *arguments, **more: together.wait())
    with opened(2) as executor:
        assert all(one.record for one in grade_jobs(executor, jobs("aaaa")))


def test_a_judge_stays_warm_for_a_lesson_and_ends_with_the_last_job(judges, grading):
    with opened(1) as executor:
        assert len([*grade_jobs(executor, jobs("abab"))]) == 4
    assert judges == ["start b", "end b", "start a", "end a"]


def test_a_judge_ends_with_a_job_that_fails(judges, grading):
    def fail(*arguments, **more):
        raise RuntimeError("the judge failed")

    grading(fail)
    with opened(1) as executor:
        [one] = grade_jobs(executor, jobs("a"))
    assert one.error == "RuntimeError: the judge failed"
    assert judges == ["start a", "end a"] * 2  # tried twice


def test_a_closed_executor_starts_nothing_more(judges, grading):
    started, may_end = [], threading.Event()

    def work(*arguments, **more):
        started.append(arguments)
        may_end.wait(60)

    grading(work)
    with opened(1) as executor:
        for job in jobs("aaaa"):
            executor.submit(job, False)
    may_end.set()
    executor.pool.shutdown()
    assert len(started) <= 1
    with pytest.raises(RuntimeError):
        executor.submit(*jobs("a"), False)


@pytest.mark.parametrize("published", ["this", "another", "none"])
def test_a_learner_cannot_read_what_a_private_solution_compiles(
    tmp_path, judges, grading, monkeypatch, published
):
    lesson, compiled = tiny.lesson(tmp_path), tmp_path / "compiled"
    text = dumps(without_hidden(lesson))
    if published == "another":  # solution of this exercise
        text = tiny.changed(text, ("secret = 2", "secret = 3"))
    if published != "none":
        write(tmp_path / "solutions" / f"{tiny.NAME}.ipynb", text)
    monkeypatch.setattr(local_executor, "ROOT", tmp_path)
    monkeypatch.setattr(local_executor.JudgeProcess, "compiled", compiled)
    grading(lambda *arguments, compiled, **more: compiled)
    executor = LocalExecutor({tiny.NAME: lesson}, Limits(), trusted=True)
    with contextlib.closing(executor):
        [done] = grade_jobs(executor, jobs([tiny.NAME]))
    assert done.record.result == (compiled if published == "this" else None)


@pytest.mark.parametrize(
    ("busy", "spare", "slots"),
    [
        ([100.0, 10.0], 2, [3, 4, 4]),
        ([100.0, 90.0], 2, [2, 3, 4]),
        ([0.0, 0.0], 0, [2]),
    ],
    ids=["a core is idle", "cores are busy", "so many were asked for"],
)
def test_one_more_job_may_run_than_now_while_one_of_our_cores_is_idle(
    judges, grading, monkeypatch, busy, spare, slots
):
    """As many as run now may run on, whatever the cores do."""
    monkeypatch.setattr(local_executor, "LOOK_S", 0)
    monkeypatch.setattr(local_executor, "usable_cores", lambda: [1, 2])
    monkeypatch.setattr(psutil, "cpu_percent", lambda percpu: [0.0, *busy, 0.0])
    may_end = threading.Event()
    grading(lambda *arguments, **more: may_end.wait(60))
    with opened(2, spare) as executor:
        assert executor.slots() == 2  # nothing runs yet
        for job in jobs("a"):
            executor.submit(job, False)
        for job, count in zip(jobs("aaa"), slots, strict=False):
            executor.submit(job, False)
            assert executor.slots() == count
        may_end.set()


def test_no_more_jobs_start_before_the_next_look_at_the_cores(
    judges, grading, monkeypatch
):
    monkeypatch.setattr(local_executor, "LOOK_S", 1000)
    monkeypatch.setattr(local_executor, "idle_cores", lambda: 2)
    may_end = threading.Event()
    grading(lambda *arguments, **more: may_end.wait(60))
    with opened(1, spare=1) as executor:
        executor.submit(*jobs("a"), False)
        assert executor.slots() == 1
        may_end.set()
