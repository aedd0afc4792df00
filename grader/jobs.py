"""What there is to grade: one job per submission, and the line in which jobs wait."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from grader.intake import Intake, read_submission
from grader.results import Outcome
from grader.store import Record, key_of


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """One submission to grade; `hashes` name its result before there is one.

    `submitted` is None, and `problem` says why, where this machine cannot read it.
    """

    student: str
    lesson: str
    submitted: Intake | None
    hashes: dict[str, str]
    problem: str = ""

    @property
    def key(self) -> str:
        """The key of its result."""
        return key_of(self.hashes)


@dataclasses.dataclass(frozen=True)
class Done:
    """A graded job: its record, or the error that kept it from being graded."""

    job: Job
    record: Record | None = None
    error: str = ""

    @property
    def took_too_long(self) -> bool:
        """Tells whether an exercise of it was stopped at the time limit."""
        found = self.record.result.exercises if self.record else ()
        return any(one.outcome is Outcome.TIMED_OUT for one in found)


def job_of(student: str, name: str, path: Path, hashes: Mapping[str, str]) -> Job:
    """Reads a submission and names its result; `hashes` are its lesson's."""
    try:
        submitted = read_submission(path, name)
    except OSError as error:
        problem = f"{path} cannot be read: {error}"
        return Job(student, name, None, {**hashes, "submission": ""}, problem)
    return Job(student, name, submitted, {**hashes, "submission": submitted.digest})


class Waiting:
    """Jobs that wait for workers, of which each stays with a lesson while it can."""

    def __init__(self, jobs: Sequence[Job]):
        self.lock = threading.Lock()
        self.jobs: dict[str, collections.deque[Job]] = {}
        self.workers: collections.Counter[str] = collections.Counter()
        for job in jobs:
            self.jobs.setdefault(job.lesson, collections.deque()).append(job)

    def __len__(self) -> int:
        return sum(map(len, self.jobs.values()))

    def __iter__(self) -> Iterator[Job]:
        return itertools.chain(*self.jobs.values())

    def take(self, lesson: str) -> Job:
        """Returns a job of this lesson, or else of the one with most work per worker.

        Raises:
            queue.Empty: nothing waits.
        """
        with self.lock:
            left = {name: len(jobs) for name, jobs in self.jobs.items() if jobs}
            if not left:
                raise queue.Empty
            if lesson not in left:
                self.workers[lesson] -= 1
                per_worker = {n: left[n] / (1 + self.workers[n]) for n in left}
                # Of equals the later one: it takes longer, and should not end alone.
                lesson = max(reversed(left), key=per_worker.get)
                self.workers[lesson] += 1
            return self.jobs[lesson].popleft()
