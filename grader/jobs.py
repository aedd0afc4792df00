"""What there is to grade: one job per submission, and the line in which jobs wait."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import statistics
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


def failed(job: Job, error: Exception) -> Done:
    """Says which fault, of ours or of the machine's, kept a job from being graded."""
    return Done(job, error=f"{type(error).__name__}: {error}"[:500])


def job_of(student: str, name: str, path: Path, hashes: Mapping[str, str]) -> Job:
    """Reads a submission and names its result; `hashes` are its lesson's."""
    try:
        submitted = read_submission(path, name)
    except OSError as error:
        problem = f"{path} cannot be read: {error}"
        return Job(student, name, None, {**hashes, "submission": ""}, problem)
    return Job(student, name, submitted, {**hashes, "submission": submitted.digest})


class Waiting:
    """Jobs that wait for workers, of which each has a warm judge for one lesson.

    Attributes:
        running: the jobs that were taken and have not ended.
    """

    def __init__(self, jobs: Sequence[Job]):
        self.jobs: dict[str, collections.deque[Job]] = {}
        self.running: set[Job] = set()
        self.took: dict[str, list[float]] = {}
        for job in jobs:
            self.jobs.setdefault(job.lesson, collections.deque()).append(job)

    def __len__(self) -> int:
        return sum(map(len, self.jobs.values()))

    def __iter__(self) -> Iterator[Job]:
        return itertools.chain(*self.jobs.values())

    def take(self, free: Sequence[str]) -> tuple[int, Job]:
        """Chooses one of the free workers, and a job for it: (its place, the job).

        A worker is given as the lesson of its judge, or "". The lesson with most work
        per worker is first; a worker that has its judge takes it, else one that has no
        judge of use.
        """
        left = self.work_left()
        busy = collections.Counter(job.lesson for job in self.running)
        # Of equals the later one: it takes longer, and should not end alone.
        for lesson in sorted(left, key=lambda n: (left[n] / (1 + busy[n]), n))[::-1]:
            useless = (have for have in free if have not in left)
            chosen = lesson if lesson in free else next(useless, None)
            if chosen is not None:
                break
        job = self.jobs[lesson].popleft()
        self.running.add(job)
        return free.index(chosen), job

    def end(self, done: Done) -> None:
        """Notes that a job has ended, and how long it took."""
        self.running.discard(done.job)
        if done.record:
            self.took.setdefault(done.job.lesson, []).append(done.record.seconds)

    def work_left(self) -> dict[str, float]:
        """Estimates the seconds of what waits, by lesson; one unknown is as others."""
        mean = {name: statistics.fmean(took) for name, took in self.took.items()}
        usual = statistics.fmean(mean.values()) if mean else 1.0
        return {
            name: len(jobs) * mean.get(name, usual)
            for name, jobs in self.jobs.items()
            if jobs
        }
