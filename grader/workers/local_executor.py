"""Grades jobs on this machine: a thread for each submission in progress."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import psutil
from nbformat import NotebookNode

from grader.containment.backend import backend
from grader.containment.cgroup import tree
from grader.containment.limits import Limits
from grader.results import Record
from grader.workers.cpu_affinity import pin_thread
from grader.workers.job_grader import JobGrader
from grader.workers.jobs import Job

SPARE = 3  # more jobs per worker while CPUs idle
WORKER_MIB = 1000  # a learner's kernel and a judge, at their most
LOOK_S = 0.2  # a shorter look at the CPUs says little
FREE = 0.7  # of a CPU


def default_workers(most: int) -> tuple[int, int]:
    """Returns how many submissions to grade at a time, and how many more on idle CPUs.

    One per CPU, and `SPARE` more for each, since submissions can sleep; but no more
    than there is memory for, nor than `most`.
    """
    in_memory = max(1, psutil.virtual_memory().available // (WORKER_MIB * 2**20))
    can = min(in_memory, max(most, 1))
    workers = min(can, os.cpu_count() or 1)
    return workers, min(can, (1 + SPARE) * workers) - workers


class LocalExecutor:
    """Grades `workers` submissions at a time; see `Executor`.

    While CPUs idle, as submissions can sleep, up to `spare` more are begun, one at each
    look at the CPUs. Without spare ones each worker has a CPU of its own.

    Raises:
        ContainmentError: untrusted code cannot be contained here.
    """

    def __init__(
        self,
        lessons: Mapping[str, NotebookNode],
        limits: Limits,
        *,
        workers: int = 1,
        spare: int = 0,
        trusted: bool = False,
    ):
        how = "trusted, not contained" if trusted else f"contained by {backend()}"
        if how.endswith("bubblewrap"):
            how += f"; {tree()}"
        more = f", {spare} more while processors idle" if spare else ""
        self.description = f"with {workers} worker{'s' * (workers != 1)}{more} ({how})"
        self.lessons, self.workers, self.spare = lessons, workers, spare
        self.grader = JobGrader(lessons, limits, trusted=trusted)
        self.looked_at = time.monotonic()
        self.lock, self.claims = threading.Lock(), contextlib.ExitStack()
        self.closed = False
        pin = None if spare else self.pin
        self.pool = ThreadPoolExecutor(workers + spare, "grader", initializer=pin)
        psutil.cpu_percent()  # the first call says nothing

    def slots(self, running: int, waiting: int) -> int:
        """Counts how many may be in progress now.

        The last few begin at once: a CPU would idle while another does them.
        """
        most = self.workers + self.spare
        if waiting <= self.workers // 2:
            return min(most, running + waiting)
        if not self.spare or time.monotonic() - self.looked_at < LOOK_S:
            return self.workers
        self.looked_at = time.monotonic()
        idle = (1 - psutil.cpu_percent() / 100) * psutil.cpu_count()
        return min(most, max(self.workers, running + (idle >= FREE)))

    def prepare(self, job: Job) -> Future[None]:
        """Compiles what all jobs of its lesson share."""
        return self.pool.submit(self.grader.fill_cache, job)

    def submit(self, job: Job) -> Future[Record]:
        """Begins to grade a job."""
        return self.pool.submit(self.grader.grade, job)

    def close(self) -> None:
        """Begins nothing more; what is in progress ends by itself."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.grader.close()
        with self.lock:
            self.closed = True
            self.claims.close()

    def pin(self) -> None:
        """Gives a thread of the pool a CPU of its own, as long as this is open."""
        with self.lock:
            if not self.closed:
                pin_thread(self.claims)
