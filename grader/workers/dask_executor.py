"""Grades on a Dask cluster, whose workers share no folder with this machine.

A worker gets one submission at a time, without its learner's name, as JSON, and answers
with the result as JSON. It never hears of the gradebook.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from distributed import Client, LocalCluster
from nbformat import NotebookNode

from grader import CourseError
from grader.authoring.release import dumps
from grader.containment.limits import Limits
from grader.results import Record, from_json
from grader.workers.dask_worker import facts_here
from grader.workers.executor import ExecutorError
from grader.workers.jobs import Job, WorkerError

LOCAL = "local"  # a cluster of this machine's processes
CONNECT_S = 30
PATIENCE_S = 600  # without a single worker

NO_COURSE = (
    "The workers do not find this course. Start them in its folder, with its "
    "environment: python -m distributed.cli.dask_worker ADDRESS --nthreads 1"
)


class ClusterError(CourseError):
    """There is no such cluster, or its workers are not made for this course."""


class DaskExecutor:
    """Grades jobs on the workers of a Dask cluster, as many as it has at the moment.

    Each thread of a worker has one job at a time; see `Executor`. The next free worker
    gets a job again whose worker has died, and Dask gives up after a few.

    Attributes:
        address: of the scheduler, for instance "tcp://10.0.0.1:8786".
        patience_s: for how long there may be no worker; then what is left is given up.
        run_there: what runs on a worker: JSON in, JSON out.

    Raises:
        ClusterError: nobody answers there, or a worker has another version of us.
    """

    spare = 0

    def __init__(
        self,
        lessons: dict[str, NotebookNode],
        limits: Limits,
        address: str,
        *,
        workers: int = 0,  # of a cluster that exists: as many as it has
        trusted: bool = False,
        patience_s: float = PATIENCE_S,
        run_there: Callable[[str], str] | None = None,
    ):
        self.lessons, self.limits, self.trusted = lessons, limits, trusted
        self.address, self.patience_s = address, patience_s
        self.run_there = run_there or ours("grade_there")
        self.texts = {name: dumps(lesson) for name, lesson in lessons.items()}
        self.common: set[str] = set()
        how = "trusted, not contained" if trusted else "contained"
        place = f"the Dask cluster at {address}"
        if address == LOCAL:
            place = f"a Dask cluster of {workers} workers here"
        self.description = f"on {place} ({how})"
        self.client = connect(address, workers)
        self.pool = self.client.get_executor(pure=False)
        self.workers = workers or sys.maxsize  # as many as there are
        self.last_seen = time.monotonic()
        try:
            self.refuse_unfit_workers()
        except BaseException:
            self.close()
            raise

    def refuse_unfit_workers(self) -> None:
        """Raises ClusterError for one with other code, or that can contain nothing."""
        here = facts_here()
        try:
            answers = self.client.run(ours("facts_here"))
        except ModuleNotFoundError:
            raise ClusterError(NO_COURSE) from None
        for worker, there in answers.items():
            for name in ("version of the course", "set of packages"):
                if there[name] != here[name]:
                    raise ClusterError(
                        f"The worker {worker} has another {name}: give it the same "
                        "commit and requirements.txt, and start it again."
                    )
            if there["problem"] and not self.trusted:
                raise ClusterError(f"The worker {worker}: {there['problem']}")

    def slots(self, running: int, waiting: int) -> int:
        """Counts the threads of all workers, up to `workers`.

        Raises:
            ExecutorError: there has been none for too long.
        """
        count = 0
        with contextlib.suppress(Exception):  # the connection's, or Dask's own
            count = sum(self.client.nthreads().values())
        if count:
            self.last_seen = time.monotonic()
        elif time.monotonic() - self.last_seen > self.patience_s:
            waited = f"{self.patience_s:g} s"
            raise ExecutorError(f"{self.address} has had no worker for {waited}.")
        return min(count, self.workers)

    def prepare(self, job: Job) -> None:
        """Notes that workers are to compile what the jobs of its lesson share."""
        self.common.add(job.lesson)

    def submit(self, job: Job) -> Future[Record]:
        """Sends a job to a worker."""
        answer, record = self.pool.submit(self.run_there, self.task(job)), Future()

        def read(answered: Future[str]) -> None:
            try:
                record.set_result(received(job, answered.result()))
            except BaseException as error:  # cancelled, too
                record.set_exception(error)

        answer.add_done_callback(read)
        return record

    def task(self, job: Job) -> str:
        """Writes what a worker needs to know of a job."""
        return json.dumps(
            {
                "name": job.lesson,
                "lesson": self.texts[job.lesson],
                "limits": vars(self.limits),
                "trusted": self.trusted,
                "prepare": job.lesson in self.common,
                "pin": self.address == LOCAL,
                "hashes": job.hashes,
                "notebook": job.submitted.notebook,
                "notes": job.submitted.notes,
                "reasons": job.submitted.reasons,
            }
        )

    def close(self) -> None:
        """Ends the warm judges of the workers, and the connection."""
        with contextlib.suppress(Exception):  # whatever has become of them
            self.client.run(ours("close_judges"))
        self.client.close(timeout=CONNECT_S)
        if self.client.cluster:
            self.client.cluster.close()


def connect(address: str, workers: int) -> Client:
    """Connects to a scheduler, or starts this machine's own.

    Raises:
        ClusterError: nobody answers.
    """
    if address == LOCAL:
        own = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None}
        return Client(LocalCluster(n_workers=workers, **own))
    try:
        return Client(address, timeout=CONNECT_S)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at {address} ({error}). An address looks like "
            "tcp://host:8786; `dask scheduler` prints its own."
        ) from None


def ours(name: str) -> Callable[..., Any]:
    """Returns a function that calls `dask_worker`'s of this name, on a worker.

    It travels by value: the scheduler, which looks at it too, may lack the course.
    """

    def call(*arguments: Any) -> Any:
        there = importlib.import_module("grader.workers.dask_worker")
        return getattr(there, name)(*arguments)

    return call


def received(job: Job, text: str) -> Record:
    """Reads a worker's answer.

    Raises:
        WorkerError: the worker could not grade the job.
        ValueError, KeyError, TypeError: the answer is no result of this job.
    """
    answer = json.loads(text)
    if answer["error"]:
        raise WorkerError(answer["error"])
    result = from_json(answer["result"])
    if result.lesson != job.lesson:
        raise ValueError(f"it is of {result.lesson}, not of {job.lesson}")
    seconds, used = answer["seconds"], dict(answer.get("used", {}))
    return Record(job.key, job.hashes, result, seconds, used)
