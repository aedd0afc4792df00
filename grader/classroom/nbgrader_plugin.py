"""Makes nbgrader's commands and formgrader grade, and write feedback, as `grade` does.

nbgrader converts each submission twice: it cleans the file, then runs it. Here the
first step gives the released lesson, and the second is the whole of our grading.
"""

from __future__ import annotations

import functools
import weakref
from pathlib import Path
from typing import Any

from nbconvert.exporters import Exporter, NotebookExporter

from grader import CourseError
from grader.classroom import gradebook
from grader.classroom.folder import Classroom, Submission
from grader.classroom.grade import read_jobs
from grader.classroom.publishing import (
    autograded_notebook,
    final_result_of,
    publish,
    save,
    write_page,
)
from grader.containment.limits import Limits
from grader.lessons.release import RELEASE_CONFIG, dumps, release
from grader.results import Record
from grader.workers.executor import grade_jobs
from grader.workers.local_executor import LocalExecutor

# What a class's settings import.
__all__ = ["RELEASE_CONFIG", "FeedbackExporter", "GradingExporter"]


class GradingExporter(NotebookExporter):
    """Takes the place of the exporter by which nbgrader cleans and runs a notebook.

    Each run of nbgrader's makes one: its judges serve all submissions of the run.
    """

    @functools.cached_property
    def classroom(self) -> Classroom:
        return Classroom(Path.cwd())  # nbgrader works in the course folder

    @functools.cached_property
    def executor(self) -> LocalExecutor:
        """What grades here, until this exporter is gone: judges are large."""
        executor = LocalExecutor(self.classroom.lessons, Limits())
        weakref.finalize(self, executor.close)
        return executor

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **_: Any
    ) -> tuple[str, dict[str, Any]]:
        """Returns the released lesson at first, then the graded notebook."""
        submission = submission_of(self.classroom, resources)
        lesson = self.classroom.lessons[submission.lesson]
        notebook = release(lesson)
        if not Path(filename).resolve().is_relative_to(submission.folder.resolve()):
            notebook = autograded_notebook(lesson, self.graded(submission).result)
        return dumps(notebook), resources | {"output_extension": ".ipynb"}

    def graded(self, submission: Submission) -> Record:
        """Grades and publishes one submission, unless its result is in the store."""
        classroom = self.classroom
        gradebook.add_lessons(classroom)
        with classroom.store.writing():
            [job] = read_jobs(classroom, [submission], Limits())
            record = classroom.store.get(job.key)
            if not record:
                [done] = grade_jobs(self.executor, [job])
                if not done.record:
                    raise CourseError(f"{submission}: {done.error}")
                record = done.record
                save(classroom, submission, record)
            return publish(classroom, submission, record)


def submission_of(classroom: Classroom, resources: dict[str, Any]) -> Submission:
    names = resources["nbgrader"]
    student, name = names["student"], names["assignment"]
    return Submission(name, student, classroom.path("submitted", student, name))


class FeedbackExporter(Exporter):
    """Takes the place of the exporter by which nbgrader writes a feedback page."""

    file_extension = ".html"

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **_: Any
    ) -> tuple[str, dict[str, Any]]:
        """Returns the page that `python -m grader grade` writes."""
        classroom = Classroom(Path.cwd())
        submission = submission_of(classroom, resources)
        if not classroom.published(submission):
            remedy = f"nbgrader autograde {submission.lesson}"
            raise CourseError(f"{submission} is not graded yet: {remedy}")
        final = final_result_of(classroom, submission)
        page = write_page(classroom, submission, final, classroom.names())
        return page, resources | {"output_extension": ".html"}
