"""Returns feedback to learners: as an archive for their LMS, or by nbgrader's exchange.

Moodle and Canvas tell whose a file is by the name under which they let one download it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbgrader.exchange import ExchangeError, ExchangeFactory
from nbgrader.utils import temp_attrs

from grader import CourseError
from grader.atomic_files import packed, read_text, write_file
from grader.classroom.folder import Classroom, Submission
from grader.classroom.lateness import small_text
from grader.classroom.publishing import (
    SECRET,
    autograded_notebook,
    copy_exchange_files,
    publish_reports,
    results_of,
)
from grader.lessons.release import dumps
from grader.pages.wording import score_of
from grader.results import Result
from grader.submissions.clean_text import clean_text

EXCHANGE = "exchange"
MOODLE_FOLDER = re.compile(r".+_\d+_assignsubmission_[a-z]+(?=_|$)")
Entry = tuple[str, bytes]  # a file's path in an archive, and its content


def return_feedback(
    folder: Path,
    lesson: str,
    kind: str = "zip",
    to: Path | None = None,
    *,
    section: str = "",
) -> int:
    """Packs a lesson's feedback into a zip archive, or releases it to the exchange.

    What a person still has to decide is not returned; with a `section`, only what its
    learners submitted is.

    Raises:
        ValueError: no such lesson, section or format, or nothing to return.
        CourseError: the exchange does not take it.
    """
    if kind not in ENTRIES:
        raise ValueError(f'No format "{kind}": choose {", ".join(ENTRIES)}.')
    if kind == EXCHANGE and to:
        raise ValueError("The exchange's folder is c.Exchange.root: leave out --to.")
    classroom = Classroom(folder)
    name = classroom.lesson_named(lesson)
    with classroom.store.writing():
        publish_reports(classroom)  # a person may have given points since the grading
    entries, unknown, undecided, ungraded = {}, [], [], []
    for submission, final in results_of(classroom, name, section).items():
        if final is None:
            ungraded.append(f"{submission} (not graded yet: run `grade`)")
        elif final.score is None:
            undecided.append(f"{submission} ({final.status}, no score: see `explain`)")
        elif entry := ENTRIES[kind](classroom, submission, final):
            entries[submission] = entry
        elif kind == EXCHANGE:
            unknown.append(f"{submission} (not submitted by the exchange)")
        else:
            reason = "its name there is not known: run `grade` with the download"
            unknown.append(f"{submission} ({reason})")
    if not entries and not unknown:
        raise ValueError(f"No submission for {name} has a final grade yet.")
    if kind == EXCHANGE:
        release_to_exchange(classroom, entries)
        print(f"released to the exchange: feedback for {len(entries)} learners")
    else:
        path = to or classroom.folder / "grading" / f"feedback-{name}-{kind}.zip"
        write_file(path, packed(entries.values()), mode=0o600)
        print(f"wrote {path}: feedback for {len(entries)} learners")
    for line in unknown + undecided + ungraded:
        print(f"not in it: {line}")
    return 1 if unknown or ungraded else 0


def plain_entry(classroom: Classroom, submission: Submission, _: Result) -> Entry:
    name = f"{submission.student}/{submission.lesson}.html"
    return name, page_of(classroom, submission)


def moodle_entry(
    classroom: Classroom, submission: Submission, _: Result
) -> Entry | None:
    """Names the page as Moodle's "Upload multiple feedback files in a zip" wants it.

    That is NAME_NUMBER_assignsubmission_file_/..., where only the number counts.
    """
    found = map(MOODLE_FOLDER.match, received_name(classroom, submission))
    folder = next((one[0] for one in found if one), None)
    if not folder:
        return None
    return f"{folder}_/{submission.lesson}.html", page_of(classroom, submission)


def canvas_entry(
    classroom: Classroom, submission: Submission, result: Result
) -> Entry | None:
    """Names the feedback as Canvas's "Upload Submissions" wants it: as it came.

    Canvas shows it to the learner under the name of the submitted file, so it has to be
    of the same kind: for a notebook, the graded notebook instead of the page.
    """
    owner = re.compile(rf"(?:^|_){re.escape(submission.student)}_\d+_")
    names = filter(owner.search, received_name(classroom, submission))
    name = next(names, None)
    if not name:
        return None
    if name.lower().endswith(".ipynb"):
        return name, graded_notebook(classroom, submission, result)
    page = page_of(classroom, submission)
    if name.lower().endswith(".zip"):
        page = packed([(f"{submission.lesson}.html", page)])
    return name, page


def exchange_entry(
    classroom: Classroom, submission: Submission, result: Result
) -> Entry | None:
    is_from_there = small_text(submission.folder / SECRET)
    return plain_entry(classroom, submission, result) if is_from_there else None


ENTRIES = {
    "zip": plain_entry,
    "moodle": moodle_entry,
    "canvas": canvas_entry,
    EXCHANGE: exchange_entry,
}


def release_to_exchange(
    classroom: Classroom, submissions: Iterable[Submission]
) -> None:
    """Releases pages as `nbgrader release_feedback` does."""
    directory = classroom.directory
    options = {"coursedir": directory, "config": directory.config}
    exchange = ExchangeFactory(config=directory.config).ReleaseFeedback(**options)
    for submission in submissions:
        student, lesson = submission.student, submission.lesson
        # A file that came again, unchanged, has another secret than its page.
        copy_exchange_files(submission, classroom.path("feedback", student, lesson))
        with temp_attrs(directory, assignment_id=lesson, student_id=student):
            try:
                exchange.start()
            except ExchangeError as error:
                raise CourseError(f"nbgrader's exchange: {error}") from None


def received_name(classroom: Classroom, submission: Submission) -> list[str]:
    """Returns a submission's path in its download; [""] where it is not known."""
    return read_text(classroom.received_path(submission)).split("/")


def page_of(classroom: Classroom, submission: Submission) -> bytes:
    lesson = submission.lesson
    folder = classroom.path("feedback", submission.student, lesson)
    return (folder / f"{lesson}.html").read_bytes()


def graded_notebook(
    classroom: Classroom, submission: Submission, result: Result
) -> bytes:
    """Makes the notebook with each check's card; points and notes come first."""
    notebook = autograded_notebook(classroom.lessons[submission.lesson], result)
    lines = (score_of(result), *result.reasons, *result.notes, *result.remarks)
    text = "\n\n".join(clean_text(line, 2000) for line in lines)
    notebook.cells.insert(0, nbformat.v4.new_raw_cell(text, id="feedback"))
    return dumps(notebook).encode()
