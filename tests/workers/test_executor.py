"""Jobs are graded side by side, in an order that keeps judges warm, and retried."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import nbformat
import pytest

from grader.results import Outcome
from grader.submissions.read_submission import SubmittedFile
from grader.workers.executor import ExecutorError, grade_jobs
from grader.workers.jobs import Job


class Executor:
    """Stands for this machine or a cluster: `work` is what grading does, at once."""

    description = "nowhere"

    def __init__(self, work, workers=1, spare=0):
        self.work, self.workers, self.spare = work, workers, spare
        self.lessons = {"a": nbformat.v4.new_notebook()}  # whose solution fails, too
        self.order, self.prepared, self.asked = [], [], []

    def slots(self, running, waiting):
        self.asked.append((running, waiting))
        return self.workers

    def prepare(self, job):
        self.prepared.append(job.lesson)
        self.order.append(f"prepare {job.lesson}")

    def submit(self, job):
        self.order.append(f"{job.student}{job.lesson}")
        future = Future()
        try:
            future.set_result(self.work(job))
        except ExecutorError:
            raise
        except Exception as error:
            future.set_exception(error)
        return future


def jobs(text):
    """Makes jobs of lessons: "aab" are two of lesson a and one of b."""
    none = SubmittedFile(None)
    return [Job(str(n), lesson, none, {}) for n, lesson in enumerate(text)]


def record(outcome=Outcome.PASSED):
    exercises = [SimpleNamespace(outcome=outcome)]
    return SimpleNamespace(result=SimpleNamespace(exercises=exercises), seconds=1.0)


def test_lessons_come_one_after_another_the_later_ones_first():
    executor = Executor(lambda job: record())
    assert len([*grade_jobs(executor, jobs("abcabc"))]) == 6
    assert [name[1] for name in executor.order] == [*"ccbbaa"]


def test_workers_spread_over_the_lessons_and_stay_with_them():
    held = {}

    class Slow(Executor):
        def submit(self, job):
            self.order.append(job.lesson)
            held[job] = Future()
            return held[job]

    executor = Slow(None, workers=2)
    found = grade_jobs(executor, jobs("aaabbb"))
    assert sorted(executor.order) == ["a", "b"]
    for lesson in "abba":
        [done] = [job for job in held if job.lesson == lesson][:1]
        held.pop(done).set_result(record())
        assert next(found).job is done
        assert executor.order[-1] == lesson  # whose judge is warm


def test_what_six_jobs_of_a_lesson_share_is_compiled_before_them():
    executor = Executor(lambda job: record())
    [*_] = grade_jobs(executor, jobs("a" * 6 + "b" * 5))
    assert executor.order[0] == "prepare a"
    assert executor.prepared == ["a"]


def test_the_first_begin_before_anybody_asks_for_a_result():
    executor = Executor(lambda job: record(), workers=2)
    grade_jobs(executor, jobs("aaaa"))
    assert len(executor.order) == 2


def test_never_more_are_in_progress_than_there_are_slots():
    begun, held = [], []

    class Slow(Executor):
        def submit(self, job):
            begun.append(job)
            held.append(Future())
            return held[-1]

    found = grade_jobs(Slow(None, workers=2), jobs("aaa"))
    assert len(begun) == 2
    held[0].set_result(record())
    assert next(found).job is begun[0]
    assert len(begun) == 3


def test_the_next_job_begins_before_a_result_is_looked_at():
    executor = Executor(lambda job: record())
    for _, finished in enumerate(grade_jobs(executor, jobs("aa"))):
        assert len(executor.order) == 2
        assert finished.record


def test_what_failed_is_retried_alone_after_all_others():
    tries = []

    def work(job):
        tries.append(job.student)
        if job.student == "0" and tries.count("0") == 1:
            raise OSError("no memory")
        return record()

    found = [one.job.student for one in grade_jobs(Executor(work, 2), jobs("aaa"))]
    assert sorted(found[:2]) == ["1", "2"] and found[2] == "0"
    assert tries.count("0") == 2


def test_what_timed_out_beside_spare_jobs_is_graded_again_without_them():
    tries = []
    executor = Executor(None, workers=1, spare=3)

    def work(job):
        tries.append((job.student, executor.spare))
        late = job.student in "13" and executor.spare
        return record(Outcome.TIMED_OUT if late else Outcome.PASSED)

    executor.work = work
    found = [one for one in grade_jobs(executor, jobs("aaaa")) if not one.timed_out]
    assert sorted(one.job.student for one in found) == [*"0123"]
    assert sorted(tries[4:]) == [("1", 0), ("3", 0)]


def test_a_time_limit_without_spare_jobs_is_the_submissions_fault():
    executor = Executor(lambda job: record(Outcome.TIMED_OUT), workers=2)
    found = [*grade_jobs(executor, jobs("aaaa"))]
    assert all(one.timed_out for one in found) and len(found) == 4
    assert len(executor.order) == 4


def test_what_cannot_be_read_says_so_and_is_never_submitted():
    executor = Executor(lambda job: record())
    [one] = grade_jobs(executor, [Job("s", "a", None, {}, "it is gone")])
    assert one.error == "it is gone"
    assert executor.order == []


def test_where_an_executor_can_do_nothing_any_more_each_job_says_so():
    class Gone(Executor):
        def slots(self, running, waiting):
            if self.order:
                raise ExecutorError("no worker")
            return 1

    executor = Gone(lambda job: record())
    found = {one.job.student: one for one in grade_jobs(executor, jobs("aaa"))}
    assert len(found) == 3
    assert {found[name].error for name in "12"} == {"no worker"}


def test_a_job_that_cannot_be_sent_costs_no_result_that_is_in_hand():
    ways = iter([False, True, False])

    class Refusing(Executor):
        def submit(self, job):
            if next(ways):
                raise RuntimeError("not now")
            return super().submit(job)

    found = [*grade_jobs(Refusing(lambda job: record()), jobs("aa"))]
    assert all(one.record for one in found) and len(found) == 2


@pytest.mark.parametrize("error", [OSError("full"), ValueError("odd"), KeyError("x")])
def test_a_fault_is_told_with_its_kind(error):
    def work(job):
        raise error

    executor = Executor(work)
    [one] = grade_jobs(executor, jobs("a"))
    assert one.error.startswith(type(error).__name__)


def test_many_threads_finish_each_job_once():
    lock, seen = threading.Lock(), []

    def work(job):
        with lock:
            seen.append(job.student)
        return record()

    found = [one.job.student for one in grade_jobs(Executor(work, 8), jobs("ab" * 50))]
    assert sorted(found) == sorted(seen) and len({*found}) == 100
