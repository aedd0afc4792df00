"""Grades on a Dask cluster, whose workers share no folder with this machine.

A worker gets one submission at a time, without the learner's name, and returns its
record. It never gets the gradebook's address.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import pickle
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from distributed import Client
from nbformat import NotebookNode

from grader import CourseError
from grader.containment.backend import backend
from grader.containment.limits import Limits
from grader.results import Record
from grader.workers.cache_key import lesson_hashes
from grader.workers.jobs import ExecutorError, Job
from grader.workers.local_executor import LocalExecutor

CONNECT_S = 30
PATIENCE_S = 600  # without a single worker


class ClusterError(CourseError):
    """There is no such cluster, or its workers cannot grade for this machine."""


class DaskExecutor:
    """Grades on the workers of a Dask cluster, which may join and leave.

    If a worker dies, Dask gives its job to another one, and gives up after a few.

    Args:
        address: of the scheduler, like "tcp://10.0.0.1:8786"; "": a cluster of this
            machine's processes.
        workers: use no more than these; 0: all that the cluster has.

    Raises:
        ClusterError: nobody answers there, or a worker cannot be used.
    """

    def __init__(
        self,
        lessons: dict[str, NotebookNode],
        limits: Limits,
        address: str,
        *,
        workers: int = 0,
        trusted: bool = False,
    ):
        self.workers = workers
        self.setups = {
            name: pickle.dumps(
                (name, lesson, lesson_hashes(lesson, limits), limits, trusted)
            )
            for name, lesson in lessons.items()
        }
        here = f"a Dask cluster of {workers} workers here"
        self.place = f"the Dask cluster at {address}" if address else here
        how = "trusted, not contained" if trusted else "contained"
        self.description = f"on {self.place} ({how})"
        self.client = connect(address, workers)
        self.pool = self.client.get_executor(pure=False)
        self.last_seen = time.monotonic()
        try:
            self.check_workers()
        except BaseException:
            self.close()
            raise

    def check_workers(self) -> None:
        """Raises ClusterError for a worker that cannot grade for this machine."""
        setup = next(iter(self.setups.values()))
        check = on_worker("check_setup")
        for worker, error in self.client.run(check, setup, on_error="return").items():
            if error:
                raise ClusterError(
                    f"The worker {worker} cannot grade this: {error}\nStart workers at "
                    "the same commit, with its packages, in the course's folder: "
                    "python -m distributed.cli.dask_worker ADDRESS --nthreads 1"
                )

    def slots(self) -> int:
        """Returns how many jobs may be running: one on each worker.

        Raises:
            ExecutorError: there has been no worker for too long.
        """
        count = 0
        with contextlib.suppress(Exception):  # of the connection, or Dask's own
            count = len(self.client.nthreads())
        if count:
            self.last_seen = time.monotonic()
        elif time.monotonic() - self.last_seen > PATIENCE_S:
            raise ExecutorError(f"No worker for {PATIENCE_S} s on {self.place}.")
        else:
            time.sleep(0.5)  # the caller asks again
        return min(count, self.workers or count)

    def submit(self, job: Job, precompile: bool) -> Future[Record]:
        """Sends a job to a worker, without the learner's name and the raw file."""
        submitted = dataclasses.replace(job.submitted, data=b"")
        job = dataclasses.replace(job, student="", submitted=submitted)
        task = self.setups[job.lesson], pickle.dumps(job), precompile
        return self.pool.submit(on_worker("grade_there"), *task)

    def close(self) -> None:
        """Closes the connection; a cluster of this machine ends with it."""
        self.client.close(timeout=CONNECT_S)


def connect(address: str, workers: int) -> Client:
    """Connects to a scheduler, or starts a cluster of this machine."""
    if not address:
        own = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None}
        return Client(n_workers=workers, **own)
    try:
        return Client(address, timeout=CONNECT_S)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at {address} ({error}). An address looks like "
            "tcp://host:8786; `dask scheduler` prints its own."
        ) from None


def on_worker(name: str) -> Callable[..., Any]:
    """Returns a function that calls this module's function `name` on a worker.

    It is pickled by value: the scheduler, which unpickles it, may lack the course. For
    the same reason its arguments are pickled beforehand.
    """

    def call(*arguments: Any) -> Any:
        there = importlib.import_module("grader.workers.dask_executor")
        return getattr(there, name)(*arguments)

    return call


# What follows runs on a worker.

_executor: tuple[bytes, LocalExecutor] | None = None  # with the setup it was made for


def check_setup(setup: bytes) -> None:
    """Raises ClusterError or ContainmentError if this worker cannot grade this."""
    _, lesson, hashes, limits, trusted = pickle.loads(setup)
    if lesson_hashes(lesson, limits) != hashes:
        raise ClusterError("another version of the course, or other packages.")
    if not trusted:
        backend()


def grade_there(setup: bytes, job: bytes, precompile: bool) -> Record:
    """Grades one submission; judges stay warm while `setup` is the same."""
    global _executor
    if _executor is None or _executor[0] != setup:
        check_setup(setup)
        if _executor:
            _executor[1].close()
        name, lesson, _, limits, trusted = pickle.loads(setup)
        _executor = setup, LocalExecutor({name: lesson}, limits, trusted=trusted)
    return _executor[1].submit(pickle.loads(job), precompile).result()
