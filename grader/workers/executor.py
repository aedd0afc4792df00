"""Grades jobs in parallel, on this machine or on a Dask cluster."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Protocol

import psutil
from nbformat import NotebookNode

from grader.containment.limits import Limits
from grader.results import Record
from grader.workers.jobs import ExecutorError, FinishedJob, Job
from grader.workers.local_executor import LocalExecutor, usable_cores

MIN_JOBS_TO_PRECOMPILE = 6  # submissions of one lesson
WORKER_MIB = 1200  # the peak of a learner's kernel and a judge, in lesson 5


class Executor(Protocol):
    """What grades jobs, as many at a time as it has slots: a process or a cluster."""

    description: str

    def slots(self) -> int: ...

    def submit(self, job: Job, precompile: bool) -> Future[Record]: ...


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

    Without `workers` there is one per core, and more while cores are idle, if memory
    allows, or a cluster's own number. There are never more than `most`, the number of
    submissions.

    Raises:
        ContainmentError, ClusterError: it cannot be used.
    """
    spare = 0
    if scheduler in ("", "local"):
        in_memory = psutil.virtual_memory().available // (WORKER_MIB * 2**20)
        can = max(1, min(workers or in_memory, most))
        workers = min(workers or len(usable_cores()), can)
        spare = can - workers
    how = {"workers": workers, "trusted": trusted}
    if scheduler:
        from grader.workers.dask_executor import DaskExecutor  # takes a second

        address = "" if scheduler == "local" else scheduler
        return contextlib.closing(DaskExecutor(lessons, limits, address, **how))
    return contextlib.closing(LocalExecutor(lessons, limits, spare=spare, **how))


def grade_jobs(executor: Executor, jobs: Sequence[Job]) -> Iterator[FinishedJob]:
    """Yields each job when it has finished, in any order.

    Each job that failed is retried once, alone, after all others.
    """
    failed = []
    for finished in _run(executor, jobs):
        if finished.error:
            failed.append(finished.job)
        else:
            yield finished
    for job in failed:
        yield from _run(executor, [job])


def _run(executor: Executor, jobs: Sequence[Job]) -> Iterator[FinishedJob]:
    """Runs jobs, never more at a time than the executor has slots.

    The others wait here: a job that kills its worker takes no other one with it. A free
    slot is filled before a result is yielded.
    """
    waiting: dict[str, list[Job]] = {}  # by lesson
    for job in jobs:
        waiting.setdefault(job.lesson, []).append(job)
    sizes = {lesson: len(same) for lesson, same in waiting.items()}
    running: dict[Future[Record], Job] = {}
    finished: list[FinishedJob] = []
    while running or waiting or finished:
        idle = [one.job.lesson for one in finished]  # their judges
        try:
            while waiting and len(running) < executor.slots():
                job = _next_job(waiting, idle.pop() if idle else "")
                precompile = sizes[job.lesson] >= MIN_JOBS_TO_PRECOMPILE
                running[_start(executor, job, precompile)] = job
        except ExecutorError as error:
            left = [*running.values(), *itertools.chain(*waiting.values())]
            finished += [FinishedJob(job, error=str(error)) for job in left]
            running, waiting = {}, {}
        yield from finished
        done, _ = wait(running, 0.5, FIRST_COMPLETED)  # workers may join
        finished = [_finished(running.pop(future), future) for future in done]


def _next_job(waiting: dict[str, list[Job]], lesson: str) -> Job:
    """Takes a job of `lesson`, else of the lesson with the most jobs waiting."""
    if lesson not in waiting:
        lesson = max(waiting, key=lambda name: (len(waiting[name]), name))
    job = waiting[lesson].pop()
    if not waiting[lesson]:
        del waiting[lesson]
    return job


def _start(executor: Executor, job: Job, precompile: bool) -> Future[Record]:
    try:
        if isinstance(job.submitted, OSError):
            raise job.submitted
        return executor.submit(job, precompile)
    except Exception as error:  # the connection to the scheduler may be lost
        future: Future[Record] = Future()
        future.set_exception(error)
        return future


def _finished(job: Job, future: Future[Record]) -> FinishedJob:
    try:
        return FinishedJob(job, future.result())
    except Exception as error:
        return FinishedJob(job, error=f"{type(error).__name__}: {error}")
