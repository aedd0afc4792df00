"""Makes stock `nbgrader autograde`, and the formgrader's button, grade as `grade` does.

nbgrader converts each submission twice: it cleans the file, then runs it. Here the
first only reads it, whatever it holds, and the second is the whole of our grading.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter

from grader.authoring.release import RELEASE_CONFIG, dumps, release
from grader.classroom.folder import Classroom, Submission
from grader.classroom.grade import enter, jobs, record_grade, split
from grader.classroom.publishing import autograded_notebook, publish
from grader.containment.limits import Limits
from grader.workers.executor import grade_jobs
from grader.workers.local_executor import LocalExecutor

__all__ = ["RELEASE_CONFIG", "GradingExporter"]  # what a class's settings import


class GradingError(Exception):
    """A submission could not be graded: our fault; it has no score."""


class GradingExporter(NotebookExporter):
    """Stands where nbgrader expects to clean and run a notebook by preprocessors."""

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **_: Any
    ) -> tuple[str, dict[str, Any]]:
        """Returns the graded notebook's text; the gradebook then has the scores.

        Raises:
            GradingError: grading failed, or nothing here can contain the code.
        """
        names = resources["nbgrader"]
        classroom = Classroom(Path(os.getcwd()))  # nbgrader works in the course folder
        student, lesson = names["student"], names["assignment"]
        folder = classroom.path("submitted", student, lesson)
        path = classroom.folder / filename
        resources |= {"output_extension": ".ipynb"}
        if path.resolve().is_relative_to(folder.resolve()):
            return dumps(release(classroom.lesson(lesson))), resources
        return dumps(graded(classroom, Submission(lesson, student, folder))), resources


def graded(classroom: Classroom, submission: Submission):
    """Grades one submission, unless its result is in the store, and publishes it."""
    limits = Limits()
    enter(classroom)
    with classroom.store.writing():
        [job] = jobs(classroom, [submission], limits)
        ready, _ = split([job], classroom.store)
        if ready:
            record = ready[0][1]
        else:
            with contextlib.closing(LocalExecutor(classroom.solved, limits)) as here:
                [done] = grade_jobs(here, [job])
            if done.record is None:
                raise GradingError(f"{submission}: {done.error}")
            record = done.record
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            classroom.store.put(record)
            record_grade(classroom, "graded", now, submission, record)
        publish(classroom, submission, record, autograded=False)
    return autograded_notebook(classroom.lesson(submission.lesson), record.result)
