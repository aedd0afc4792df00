"""Grades jobs in parallel, on this machine or on a Dask cluster."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

import psutil
from nbformat import NotebookNode

from grader.containment.limits import Limits
from grader.kernel.learner_box import MIN_JOBS_FOR_FORK_SERVER, fork_server
from grader.results import Record
from grader.workers.jobs import ExecutorError, FinishedJob, Job
from grader.workers.local_executor import LocalExecutor

MIN_JOBS_TO_PRECOMPILE = 6  # submissions of one lesson
WORKER_MIB = 1000  # the peak of a learner's kernel and a judge


def open_executor(
    lessons: dict[str, NotebookNode],
    limits: Limits,
    scheduler: str,
    *,
    workers: int,
    most: int,
    trusted: bool,
) -> contextlib.closing:
    """Opens a LocalExecutor, or a DaskExecutor for a scheduler's address.

    Without `workers` there is one per core, if memory allows, or a cluster's own
    number. There are never more than `most`, the number of submissions.

    Raises:
        ContainmentError, ClusterError: it cannot be used.
    """
    if scheduler in ("", "local"):
        in_memory = psutil.virtual_memory().available // (WORKER_MIB * 2**20)
        workers = workers or min(os.cpu_count() or 1, in_memory)
        workers = max(1, min(workers, most))
    how = {"workers": workers, "trusted": trusted}
    if scheduler:
        from grader.workers.dask_executor import DaskExecutor  # takes a second

        address = "" if scheduler == "local" else scheduler
        return contextlib.closing(DaskExecutor(lessons, limits, address, **how))
    if most >= MIN_JOBS_FOR_FORK_SERVER and not trusted:
        fork_server(start=True)
    return contextlib.closing(LocalExecutor(lessons, limits, **how))


def grade_jobs(executor: LocalExecutor, jobs: Sequence[Job]) -> Iterator[FinishedJob]:
    """Starts at once; yields each job when it has finished, in any order.

    `executor` may be a DaskExecutor, too. Each job that failed is retried once, alone,
    after all others.
    """
    return _with_retries(executor, _Run(executor, jobs))


def _with_retries(executor: LocalExecutor, run: _Run) -> Iterator[FinishedJob]:
    failed = []
    for finished in run:
        if finished.error:
            failed.append(finished.job)
        else:
            yield finished
    for job in failed:
        yield from _Run(executor, [job])


class _Run:
    """Runs jobs, never more at a time than the executor has slots.

    The others wait here: a job that kills its worker takes no other one with it.
    """

    def __init__(self, executor: LocalExecutor, jobs: Sequence[Job]):
        self.executor = executor
        self.waiting: dict[str, list[Job]] = {}  # by lesson
        for job in jobs:
            self.waiting.setdefault(job.lesson, []).append(job)
        self.sizes = {lesson: len(same) for lesson, same in self.waiting.items()}
        self.running: dict[Future[Record], Job] = {}
        self.finished: list[FinishedJob] = []
        self.fill([])

    def __iter__(self) -> Iterator[FinishedJob]:
        while self.running or self.waiting or self.finished:
            done, _ = wait(self.running, 0.5, FIRST_COMPLETED)  # workers may join
            jobs = [self.running.pop(future) for future in done]
            self.finished += map(_finished, jobs, done)
            self.fill([job.lesson for job in jobs])
            finished, self.finished = self.finished, []
            yield from finished

    def fill(self, lessons: list[str]) -> None:
        """Starts jobs in all free slots; judges of `lessons` are idle."""
        try:
            while self.waiting and len(self.running) < self.executor.slots():
                self.start(self.next_job(lessons.pop() if lessons else ""))
        except ExecutorError as error:
            left = [*self.running.values(), *itertools.chain(*self.waiting.values())]
            self.finished += [FinishedJob(job, error=str(error)) for job in left]
            self.running.clear()
            self.waiting.clear()

    def next_job(self, lesson: str) -> Job:
        """Takes a job of `lesson`, else of the lesson with the most jobs waiting."""
        if lesson not in self.waiting:
            lesson = max(self.waiting, key=lambda name: (len(self.waiting[name]), name))
        job = self.waiting[lesson].pop()
        if not self.waiting[lesson]:
            del self.waiting[lesson]
        return job

    def start(self, job: Job) -> None:
        try:
            if isinstance(job.submitted, OSError):
                raise job.submitted
            precompile = self.sizes[job.lesson] >= MIN_JOBS_TO_PRECOMPILE
            future = self.executor.submit(job, precompile)
        except Exception as error:  # the connection to the scheduler may be lost
            future = Future()
            future.set_exception(error)
        self.running[future] = job


def _finished(job: Job, future: Future[Record]) -> FinishedJob:
    try:
        return FinishedJob(job, future.result())
    except Exception as error:
        return FinishedJob(job, error=f"{type(error).__name__}: {error}")
