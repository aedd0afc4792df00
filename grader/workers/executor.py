"""Grades jobs side by side on an executor: this machine's, or a Dask cluster's."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Protocol

from nbformat import NotebookNode

from grader import CourseError
from grader.authoring.release import dumps
from grader.judging.grade_submission import nothing_to_grade
from grader.results import Outcome, Record, Status
from grader.submissions.read_submission import parse_submission
from grader.workers.job_grader import MIN_JOBS_TO_PRECOMPILE
from grader.workers.jobs import FinishedJob, Job, failed

POLL_S = 0.1


class ExecutorError(CourseError):
    """An executor can grade nothing any more."""


class Executor(Protocol):
    """Where submissions are graded.

    Attributes:
        lessons: the solved lessons by name.
        spare: how many more jobs than workers may be in progress while CPUs idle.
        description: where, by how many workers, and how untrusted code is run.
    """

    lessons: Mapping[str, NotebookNode]
    spare: int
    description: str

    def slots(self, running: int, waiting: int) -> int:
        """Counts how many jobs may be in progress now, where `running` are.

        Raises:
            ExecutorError: none ever will be.
        """

    def prepare(self, job: Job) -> Future[None] | None:
        """Compiles what all jobs of its lesson share; None: nothing to do here."""

    def submit(self, job: Job) -> Future[Record]:
        """Begins to grade a job that could be read."""

    def close(self) -> None:
        """Ends what outlives a run."""


def grade_jobs(executor: Executor, jobs: Sequence[Job]) -> Iterator[FinishedJob]:
    """Begins at once; yields each job as it is finished, in any order.

    Failed ones are retried, each alone. Where one fails then too and its lesson's own
    solution is graded well, the fault is bound to the submission. What took too long
    beside spare jobs is graded again without them.
    """
    return _with_retries(executor, _Run(executor, jobs))


def _with_retries(executor: Executor, first: _Run) -> Iterator[FinishedJob]:
    retried, late = [], []
    for finished in first:
        if finished.error:
            retried.append(finished.job)
        elif executor.spare and finished.timed_out:
            late.append(finished.job)
        else:
            yield finished
    executor.spare = 0
    for finished in _Run(executor, late):
        if finished.error:
            retried.append(finished.job)
        else:
            yield finished
    for job in retried:
        [finished] = _Run(executor, [job])
        yield finished if not finished.error else _blamed(executor, finished)


def _blamed(executor: Executor, finished: FinishedJob) -> FinishedJob:
    """Decides about a job that failed twice: this submission, or this machine?"""
    job = finished.job
    if job.submitted is None:
        return finished
    lesson = executor.lessons[job.lesson]
    own = parse_submission(dumps(lesson).encode())
    [check] = _Run(executor, [dataclasses.replace(job, submitted=own)])
    if check.error or any(
        one.outcome is not Outcome.PASSED for one in check.record.result.exercises
    ):
        return finished
    reason = (
        f"Grading it failed twice ({finished.error}), while the lesson's own solution "
        "is graded well on this machine."
    )
    result = nothing_to_grade(lesson, job.lesson, (), (reason,))
    result = dataclasses.replace(result, status=Status.NEEDS_REVIEW)
    return FinishedJob(job, Record(job.key, job.hashes, result))


class _Run:
    """Jobs in progress: never more than the executor has slots for.

    What waits, waits here, so that a job which takes its worker down takes no other one
    with it.

    Attributes:
        warm: how many judges of a lesson have nothing to do.
    """

    def __init__(self, executor: Executor, jobs: Sequence[Job]):
        self.executor = executor
        self.finished: list[FinishedJob] = []
        self.running: dict[Future, Job | None] = {}
        self.warm: collections.Counter[str] = collections.Counter()
        self.jobs: dict[str, collections.deque[Job]] = {}
        for job in jobs:
            self.jobs.setdefault(job.lesson, collections.deque()).append(job)
        several = (s for s in self.jobs.values() if len(s) >= MIN_JOBS_TO_PRECOMPILE)
        self.unprepared = [same[0] for same in several]
        self.fill()

    @property
    def waiting(self) -> int:
        """Counts what waits: jobs, and lessons to be prepared for them."""
        return len(self.unprepared) + sum(map(len, self.jobs.values()))

    def next_job(self) -> Job:
        """Takes a job whose lesson has a warm judge, or few others in progress.

        Of equals a later lesson comes first: it takes longer, and should not end alone.
        """
        running = collections.Counter(
            job.lesson for job in self.running.values() if job
        )
        lesson = max(
            (name for name, same in self.jobs.items() if same),
            key=lambda name: (self.warm[name] > 0, -running[name], name),
        )
        used = lesson if self.warm[lesson] else next(iter(+self.warm), "")
        self.warm[used] -= bool(used)  # another lesson's judge ends for a new one
        return self.jobs[lesson].popleft()

    def fill(self) -> None:
        """Begins what there are slots for."""
        try:
            while self.has_slot() and self.waiting:
                if self.unprepared:
                    first = self.unprepared.pop(0)
                    self.begin(None, functools.partial(self.executor.prepare, first))
                else:
                    job = self.next_job()
                    self.begin(job, functools.partial(self.executor.submit, job))
        except ExecutorError as end:
            left = [*self.running.values(), *itertools.chain(*self.jobs.values())]
            self.finished += [FinishedJob(job, error=str(end)) for job in left if job]
            self.running.clear()
            self.jobs.clear()
            self.unprepared.clear()

    def has_slot(self) -> bool:
        """Tells whether one more job may begin now."""
        running = len(self.running)
        return running < self.executor.slots(running, self.waiting)

    def begin(self, job: Job | None, start: Callable[[], Future | None]) -> None:
        """Begins one job, or the preparation of a lesson."""
        if job and job.submitted is None:
            self.finished.append(FinishedJob(job, error=job.problem))
            return
        try:
            future = start()
        except ExecutorError:
            raise
        except Exception as error:  # the scheduler has just gone, say
            if job:
                self.finished.append(failed(job, error))
        else:
            if future:
                self.running[future] = job

    def __iter__(self) -> Iterator[FinishedJob]:
        while self.waiting or self.running or self.finished:
            yield from self.taken()
            done, _ = wait(self.running, POLL_S, FIRST_COMPLETED)
            for future in done:
                job = self.running.pop(future)
                if job:
                    self.warm[job.lesson] += 1
                    self.finished.append(_outcome(job, future))
            # The next job begins before anybody looks at what is finished.
            if self.waiting or self.running:
                self.fill()

    def taken(self) -> list[FinishedJob]:
        """Takes out what is finished."""
        finished, self.finished = self.finished, []
        return finished


def _outcome(job: Job, future: Future[Record]) -> FinishedJob:
    """Reads a future that is done; a fault of ours or of the machine's is told."""
    try:
        return FinishedJob(job, future.result())
    except Exception as error:
        return failed(job, error)
