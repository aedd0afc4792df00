"""Returns feedback to learners: as an archive for their LMS, or by nbgrader's exchange.

Moodle and Canvas tell whose a file is by the name under which they let one download it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbgrader.exchange import ExchangeError, ExchangeFactory
from nbgrader.utils import temp_attrs

from grader import CourseError
from grader.atomic_files import packed, read_text, write_file
from grader.authoring.release import dumps
from grader.classroom.folder import Classroom, Submission
from grader.classroom.publishing import (
    EXCHANGE_FILES,
    autograded_notebook,
    publish_reports,
    results_of,
)
from grader.classroom.roster import moodle_numbers, read_people
from grader.results import Result
from grader.submissions.clean_text import clean_text

EXCHANGE = "exchange"
UNGRADED = "not graded yet: run `grade`"
# Why feedback for a learner cannot be given back in this way.
UNKNOWN = {
    "moodle": "Moodle's number is not known: run `grade` with the download",
    "canvas": "Canvas's name of the file is not known: run `grade` with the download",
    EXCHANGE: "not submitted by the exchange",
}
MOODLE_FOLDER = re.compile(r".+_\d+_assignsubmission_[a-z]+(?=_|$)")
Entry = tuple[str, bytes]  # a file's path in an archive, and its content


def return_feedback(
    folder: Path, lesson: str, kind: str = "zip", to: Path | None = None
) -> int:
    """Packs a lesson's feedback, or hands it to nbgrader's exchange.

    What a person still has to decide is not returned.

    Raises:
        ValueError: no such lesson or format, or nothing to return.
        CourseError: the exchange does not take it.
    """
    if kind not in (*ENTRIES, EXCHANGE):
        raise ValueError(f'No format "{kind}": choose {", ".join(ENTRIES)}, exchange.')
    if kind == EXCHANGE and to:
        raise ValueError("The exchange's folder is c.Exchange.root: leave out --to.")
    classroom = Classroom(folder)
    name = classroom.lesson_named(lesson)
    with classroom.store.writing():
        publish_reports(classroom)  # a person may have given points since the grading
    final, missing = final_results(classroom, name)
    if not final:
        raise ValueError(f"No submission for {name} has a final grade yet.")
    if kind == EXCHANGE:
        returned = release_to_exchange(classroom, final)
        print(f"released to the exchange: feedback for {len(returned)} learners")
    else:
        found = {one: ENTRIES[kind](classroom, one, final[one]) for one in final}
        entries = {one: entry for one, entry in found.items() if entry}
        returned = [*entries]
        file = f"feedback-{name}-{kind}.zip"
        path = to or classroom.folder / "grading" / file
        write_file(path, packed(entries.values()), mode=0o600)
        print(f"wrote {path}: feedback for {len(entries)} learners")
    nameless = [one for one in final if one not in returned]
    for one in nameless:
        print(f"not in it: {one} ({UNKNOWN[kind]})")
    for one, reason in missing.items():
        print(f"not in it: {one} ({reason})")
    return 1 if nameless or UNGRADED in missing.values() else 0


def final_results(
    classroom: Classroom, lesson: str
) -> tuple[dict[Submission, Result], dict[Submission, str]]:
    """Returns a lesson's results with a score, and why the others have none."""
    final, missing = {}, {}
    for submission, result in results_of(classroom, lesson).items():
        if result is None:
            missing[submission] = UNGRADED
        elif result.score is None:
            missing[submission] = f"{result.status}, no score: see `explain`"
        else:
            final[submission] = result
    return final, missing


def plain_entry(classroom: Classroom, submission: Submission, _: Result) -> Entry:
    name = f"{submission.student}/{submission.lesson}.html"
    return name, page_of(classroom, submission)


def moodle_entry(
    classroom: Classroom, submission: Submission, _: Result
) -> Entry | None:
    """Names the page as Moodle's "Upload multiple feedback files in a zip" wants it.

    That is NAME_NUMBER_assignsubmission_file_/..., where only the number counts.
    """
    student = submission.student
    found = map(MOODLE_FOLDER.match, received_name(classroom, submission))
    folder = next((one[0] for one in found if one), None)
    if not folder:
        person = read_people(classroom.roster).get(student, {})
        is_canvas_id = student == person.get("canvas_id")
        numbers = moodle_numbers(person) or [student] * (not is_canvas_id)
        if len(numbers) != 1 or not numbers[0].isdigit():
            return None
        name = re.sub(r"[_/\\]", " ", person.get("name", "")) or "Participant"
        folder = f"{name}_{numbers[0]}_assignsubmission_file"
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


ENTRIES = {"zip": plain_entry, "moodle": moodle_entry, "canvas": canvas_entry}


def received_name(classroom: Classroom, submission: Submission) -> list[str]:
    """Returns the path of a submission in its download; [] where it is not known."""
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
    points = f"{result.score:g} of {result.max_points:g} points"
    lines = (points, *result.reasons, *result.notes, *result.remarks)
    text = "\n\n".join(clean_text(line, 2000) for line in lines)
    first = nbformat.v4.new_raw_cell(text, id="feedback")
    notebook.cells.insert(0, first)
    return dumps(notebook).encode()


def release_to_exchange(
    classroom: Classroom, final: Mapping[Submission, Result]
) -> list[Submission]:
    """Releases pages as `nbgrader release_feedback` does; returns whose."""
    directory, released = classroom.directory, []
    settings = directory.config
    factory = ExchangeFactory(config=settings)
    exchange = factory.ReleaseFeedback(coursedir=directory, config=settings)
    for submission in final:
        files = [submission.folder / name for name in EXCHANGE_FILES]
        if all(file.is_file() and not file.is_symlink() for file in files):
            names = {"assignment_id": submission.lesson}
            names["student_id"] = submission.student
            feedback = classroom.path("feedback", submission.student, submission.lesson)
            for file in files:
                write_file(feedback / file.name, file.read_bytes())
            with temp_attrs(directory, **names):
                try:
                    exchange.start()
                except ExchangeError as error:
                    raise CourseError(f"nbgrader's exchange: {error}") from None
            released.append(submission)
    return released
