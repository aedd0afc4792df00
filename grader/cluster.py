"""Grades on a Dask cluster, whose workers share no folder with this machine.

A worker gets one submission at a time, without its learner's name, as JSON, and answers
with the result as JSON. It never hears of the gradebook.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import json
import queue
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from distributed import Client, Future, LocalCluster
from nbformat import NotebookNode

from grader import CourseError
from grader.cluster_worker import facts_here
from grader.containment import Limits
from grader.grading import Grading
from grader.jobs import Done, Job, Waiting, failed
from grader.own_files import dumps
from grader.places import LOCAL
from grader.results import from_json
from grader.store import Record

CONNECT_S = 30
POLL_S = 1
PATIENCE_S = 600  # without a single worker

NO_COURSE = (
    "The workers do not find this course. Start them in its folder, with its "
    "environment: python -m distributed.cli.dask_worker ADDRESS --nthreads 1"
)


class ClusterError(CourseError):
    """There is no such cluster, or its workers are not made for this course."""


class ClusterGrading(Grading):
    """Grades jobs on the workers of a Dask cluster, as many as it has at the moment.

    Each thread of a worker has one job at a time and the others wait here: a job that
    takes its worker down takes no other one with it. The next free worker gets it
    again, and Dask gives up after a few.

    Attributes:
        address: of the scheduler, for instance "tcp://10.0.0.1:8786".
        patience_s: for how long there may be no worker; then what is left is given up.
        run_there: what runs on a worker: JSON in, JSON out.

    Raises:
        ClusterError: nobody answers there, or a worker has another version of us.
    """

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
        self.address, self.patience_s = address, patience_s
        self.run_there = run_there or ours("grade_there")
        self.texts = {name: dumps(lesson) for name, lesson in lessons.items()}
        self.ended = ""
        super().__init__(lessons, limits, workers=workers, trusted=trusted)
        self.client = connect(address, workers)
        self.workers = workers or sys.maxsize  # as many as there are
        try:
            self.refuse_unfit_workers()
        except BaseException:
            self.close()
            raise

    def in_words(self) -> str:
        """Says where, and how, strangers' code is run; each worker finds its box."""
        how = "trusted, not contained" if self.trusted else "contained"
        place = f"the Dask cluster at {self.address}"
        if self.address == LOCAL:
            place = f"a Dask cluster of {self.workers} workers here"
        return f"on {place} ({how})"

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

    def slots(self) -> int:
        """Counts the threads of all workers; 0 also where nobody answers."""
        with contextlib.suppress(Exception):  # the connection's, or Dask's own
            return sum(self.client.nthreads().values())
        return 0

    def side_by_side(self, jobs: Sequence[Job], workers: int) -> Iterator[Done]:
        """Yields jobs as the cluster finishes them; at most `workers` at a time."""
        count = collections.Counter(job.lesson for job in jobs)
        todo, free = Waiting(jobs), []
        running: dict[str, Job] = {}
        finished: queue.SimpleQueue[Future] = queue.SimpleQueue()
        last_seen, done = time.monotonic(), []
        while todo or running:
            slots = self.slots()
            if slots:
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > self.patience_s:
                waited = f"{self.patience_s:g} s"
                self.ended = f"{self.address} has had no worker for {waited}."
            while todo and not self.ended and len(running) < min(slots, workers):
                # What is free now has a warm judge of the lesson that it had last.
                number, job = todo.take(free or [""])
                del free[number : number + 1]
                sent = self.sent(job, count[job.lesson])
                if isinstance(sent, Done):
                    done.append(sent)
                    todo.end(sent)
                else:
                    running[sent.key] = job
                    sent.add_done_callback(finished.put)
            yield from done  # whose worker has the next job by now
            done.clear()
            if self.ended:
                yield from (Done(job, error=self.ended) for job in running.values())
                yield from (Done(job, error=self.ended) for job in todo)
                return
            with contextlib.suppress(queue.Empty):
                future = finished.get(timeout=POLL_S)
                job = running.pop(future.key)
                free.append(job.lesson)
                done.append(received(job, future))
                todo.end(done[-1])
        yield from done

    def sent(self, job: Job, count: int) -> Future | Done:
        """Gives a worker one of `count` jobs of a lesson; or tells why it cannot."""
        if job.submitted is None:
            return Done(job, error=job.problem)
        try:
            return self.client.submit(self.run_there, self.task(job, count), pure=False)
        except Exception as error:  # the scheduler has just gone, say
            return failed(job, error)

    def task(self, job: Job, count: int) -> str:
        """Writes what a worker needs to know of a job, one of `count` of its lesson."""
        return json.dumps(
            {
                "name": job.lesson,
                "lesson": self.texts[job.lesson],
                "limits": vars(self.limits),
                "trusted": self.trusted,
                "count": count,
                "bound": self.address == LOCAL,
                "hashes": job.hashes,
                "notebook": job.submitted.notebook,
                "notes": job.submitted.notes,
                "reasons": job.submitted.reasons,
            }
        )

    def close(self) -> None:
        """Ends the warm judges of the workers, and the connection."""
        with contextlib.suppress(Exception):  # whatever has become of them
            self.client.run(ours("rest"))
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
    """Returns a function that calls `cluster_worker`'s of this name, on a worker.

    It travels by value: the scheduler, which looks at it too, may lack the course.
    """

    def call(*arguments: Any) -> Any:
        there = importlib.import_module("grader.cluster_worker")
        return getattr(there, name)(*arguments)

    return call


def received(job: Job, future: Future) -> Done:
    """Reads a worker's answer; what became of it otherwise is told as an error."""
    try:
        answer = json.loads(future.result(timeout=CONNECT_S))
        if answer["error"]:
            return Done(job, error=answer["error"])
        result = from_json(answer["result"])
        if result.lesson != job.lesson:
            raise ValueError(f"it is of {result.lesson}, not of {job.lesson}")
        return Done(job, Record(job.key, job.hashes, result, answer["seconds"]))
    except Exception as error:
        return failed(job, error)
