"""One job per submission, and how it ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from nbformat import NotebookNode

from grader import CourseError
from grader.judging.grade_submission import nothing_to_grade
from grader.results import Record, Result, Status
from grader.submissions.read_submission import SubmittedFile, read_submission
from grader.workers.cache_key import key_of


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """One submission to grade, or the reason why this machine cannot read it.

    `hashes` identify its result before it exists.
    """

    student: str
    lesson: str
    submitted: SubmittedFile | OSError
    hashes: dict[str, str]

    @property
    def key(self) -> str:
        return key_of(self.hashes)


class ExecutorError(CourseError):
    """What grades jobs cannot grade anything anymore."""


@dataclasses.dataclass(frozen=True)
class FinishedJob:
    """A job with its record, or with the error that prevented one."""

    job: Job
    record: Record | None = None
    error: str = ""


def job_of(student: str, name: str, path: Path, hashes: Mapping[str, str]) -> Job:
    """Reads a submission; `hashes` are those of its lesson."""
    try:
        submitted = read_submission(path, name)
    except OSError as error:
        return Job(student, name, error, {**hashes, "submission": ""})
    return Job(student, name, submitted, {**hashes, "submission": submitted.digest})


def infra_error(job: Job, lesson: NotebookNode, error: str) -> Result:
    """Makes the result that reports our own fault; it is never stored."""
    result = nothing_to_grade(lesson, job.lesson, (), (error,))
    return dataclasses.replace(result, status=Status.INFRA_ERROR)
