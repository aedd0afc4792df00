"""One job per submission, and what became of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from nbformat import NotebookNode

from grader.judging.grade_submission import nothing_to_grade
from grader.results import Outcome, Record, Result, Status
from grader.submissions.read_submission import SubmittedFile, read_submission
from grader.workers.cache_key import key_of

MAX_ERROR = 500  # characters


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """One submission to grade; `hashes` name its result before there is one.

    `submitted` is None, and `problem` says why, where this machine cannot read it.
    """

    student: str
    lesson: str
    submitted: SubmittedFile | None
    hashes: dict[str, str]
    problem: str = ""

    @property
    def key(self) -> str:
        """The key of its result."""
        return key_of(self.hashes)


@dataclasses.dataclass(frozen=True)
class FinishedJob:
    """A job with its record, or with the error that kept it from being graded."""

    job: Job
    record: Record | None = None
    error: str = ""

    @property
    def timed_out(self) -> bool:
        """Tells whether one of its exercises was stopped at the time limit."""
        found = self.record.result.exercises if self.record else ()
        return any(one.outcome is Outcome.TIMED_OUT for one in found)


class WorkerError(Exception):
    """A worker elsewhere could not grade a job; the text is its own."""


def failed(job: Job, error: Exception) -> FinishedJob:
    """Says which fault, of ours or of the machine's, kept a job from being graded."""
    if isinstance(error, WorkerError):
        return FinishedJob(job, error=str(error))
    return FinishedJob(job, error=f"{type(error).__name__}: {error}"[:MAX_ERROR])


def job_of(student: str, name: str, path: Path, hashes: Mapping[str, str]) -> Job:
    """Reads a submission and names its result; `hashes` are its lesson's."""
    try:
        submitted = read_submission(path, name)
    except OSError as error:
        problem = f"{path} cannot be read: {error}"
        return Job(student, name, None, {**hashes, "submission": ""}, problem)
    return Job(student, name, submitted, {**hashes, "submission": submitted.digest})


def infra_error(job: Job, lesson: NotebookNode, error: str) -> Result:
    """Makes the result that stands for our own fault; it is never stored."""
    result = nothing_to_grade(lesson, job.lesson, (), (error,))
    return dataclasses.replace(result, status=Status.INFRA_ERROR)
