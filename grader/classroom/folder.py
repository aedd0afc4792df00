"""A class's folder, as nbgrader lays it out: its lessons, submissions and settings."""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import functools
import json
import zoneinfo
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader

from grader.atomic_files import read_text, write
from grader.classroom.roster import find_student, read_names, read_people, read_sections
from grader.classroom.store import Store
from grader.lessons.release import hidden_source, names_lesson, with_checks
from grader.pages.wording import with_name
from grader.results import Record

CONFIG = "nbgrader_config.py"
SEED = Path("grading", "seed.txt")  # of the cases that hidden tests generate


@dataclasses.dataclass(frozen=True, order=True)
class Submission:
    """What one learner submitted for one lesson; `folder` holds the files."""

    lesson: str
    student: str
    folder: Path = dataclasses.field(compare=False)

    def __str__(self) -> str:
        return f"{self.student} {self.lesson}"


@dataclasses.dataclass(frozen=True)
class Publication:
    """What is shown everywhere for a submission; "" for what there is not."""

    key: str = ""  # of the result
    better: str = ""  # the key of an earlier file's, which earned more points
    unreadable: str = ""  # the key of a newer file's, which cannot be graded
    shown: str = ""  # the hash of what its page shows beside the result
    late: str = ""  # what was last said about its lateness
    time: str | None = None  # when its file was submitted, as far as it is known
    # What else only the gradebook has, in case it is lost: by exercise, what a person
    # gave, and the seconds of an extension that was entered there.
    given: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    extension_s: float | None = None


def refuse_broken(where: Path | str, source: str) -> None:
    """Raises `ValueError` where checks that an instructor changed are not Python."""
    try:
        compile(source, str(where), "exec")
    except SyntaxError as error:
        line = f"line {error.lineno}: {error.msg}"
        raise ValueError(f"{where}, {line}. Mend this check, then grade.") from None


class Classroom:
    """One course folder.

    Attributes:
        settings: nbgrader's settings for this class.
        store: where its results and its log are kept.
        roster: the file that joins learners' ids with their names.
        db_url: the address of nbgrader's gradebook.

    Raises:
        ValueError: `folder` is no course folder.
    """

    def __init__(self, folder: Path):
        self.folder = folder.expanduser().resolve()
        if not (self.folder / CONFIG).is_file():
            raise ValueError(
                f"{folder} is no course folder: it has no {CONFIG}. Make one "
                "with: python -m grader course FOLDER"
            )
        loader = PyFileConfigLoader(CONFIG, path=str(self.folder))
        self.settings = loader.load_config()
        self.directory = CourseDirectory(config=self.settings, root=str(self.folder))
        self.db_url: str = self.directory.db_url
        self.course_id: str = self.directory.course_id
        self.store = Store(self.folder / "grading")
        self.roster = self.folder / "grading" / "people.csv"

    @functools.cached_property
    def lessons(self) -> dict[str, NotebookNode]:
        """The solved lessons in source/, with their checks and the class's seed."""
        source = self.folder / self.directory.source_directory
        seed = self.seed()
        lessons = {}
        for folder in sorted(source.iterdir()):
            path = folder / f"{folder.name}.ipynb"
            if path.is_file():
                checks = folder / "coursekit" / "checks" / f"{folder.name}.py"
                notebook = nbformat.read(path, as_version=4)
                lesson = with_checks(notebook, self.read(checks))
                refuse_broken(checks, lesson.metadata.checks)
                for cell in lesson.cells:
                    refuse_broken(f"{path}, cell {cell.id}", hidden_source(cell))
                lesson.metadata["seed"] = seed
                lessons[folder.name] = lesson
        return lessons

    def seed(self) -> int:
        """Reads the class's seed of generated cases.

        Raises:
            ValueError: the file is missing, or holds no whole number.
        """
        text = self.read(self.folder / SEED).strip()
        if not text.isascii() or not text.isdigit():
            raise ValueError(f"{SEED} holds {text[:50]!r}: write a whole number there.")
        return int(text)

    def read(self, path: Path) -> str:
        """Reads a file that `make_course` wrote.

        Raises:
            ValueError: it is missing.
        """
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            restore = f"python -m grader course {self.folder} --update"
            raise ValueError(f"{path} is missing. Restore it: {restore}") from None

    @functools.cached_property
    def zone(self) -> zoneinfo.ZoneInfo:
        """The class's time zone; UTC in a class that has no setting.

        Raises:
            ValueError: the setting names no time zone.
        """
        name = self.settings.Classroom.get("timezone", "UTC")
        try:
            return zoneinfo.ZoneInfo(name)
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
            raise ValueError(
                f'{self.folder / CONFIG}: c.Classroom.timezone is "{name}", which is '
                'no time zone. Write it like "Europe/Berlin" or "Asia/Seoul".'
            ) from None

    def time_text(self, time: datetime.datetime) -> str:
        """Writes a time in the class's zone; one without a zone is taken as UTC."""
        aware = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
        return f"{aware.astimezone(self.zone):%Y-%m-%d %H:%M} {self.zone.key}"

    def path(self, kind: str, student: str, lesson: str) -> Path:
        """Names a learner's "submitted", "autograded" or "feedback" folder."""
        name = getattr(self.directory, f"{kind}_directory")
        return Path(self.directory.format_path(name, student, lesson))

    def submissions(
        self, lesson: str = "", students: Sequence[str] = (), *, section: str = ""
    ) -> list[Submission]:
        """Lists what was submitted for a lesson or all, by some learners or all.

        Raises:
            ValueError: no such lesson or section, or one of these learners submitted
                nothing for the lesson.
        """
        lessons = [self.lesson_named(lesson)] if lesson else self.lessons
        found = [one for one in self._submitted() if one.lesson in lessons]
        of_section = self.members(section) if section else self.students()
        if not students:
            return [one for one in found if one.student in of_section]
        wanted = {self.student_named(text) for text in students}
        for student in sorted(wanted - {one.student for one in found}):
            self.refuse_unknown(student)
            what = f"for {lesson} " * bool(lesson)
            raise ValueError(f'"{student}" submitted nothing {what}in {self.folder}.')
        return [one for one in found if one.student in wanted & of_section]

    def unknown_folders(self) -> list[str]:
        """Names the folders in submitted/ that belong to no lesson of this course."""
        unknown = (one for one in self._submitted() if one.lesson not in self.lessons)
        return sorted(str(one.folder.relative_to(self.folder)) for one in unknown)

    def student_named(self, text: str) -> str:
        """Returns the id of a learner, given it or what the roster knows them by."""
        return text if text in self.students() else find_student(self.roster, text)

    def students(self) -> set[str]:
        """Returns the ids of those who submitted something."""
        root = self.folder / self.directory.submitted_directory
        return {path.name for path in root.glob("*")}

    def refuse_unknown(self, student: str) -> None:
        """Raises a ValueError for an id that nobody has; it names similar learners."""
        known = dict.fromkeys((one.student for one in self._submitted()), "")
        people = read_people(self.roster).items()
        known |= {one: row.get("name") or "" for one, row in people}
        if student not in known:
            words = {name: one for one, name in known.items() if name}
            words |= {one: one for one in known}
            like = difflib.get_close_matches(student, sorted(words), n=3)
            who = dict.fromkeys(with_name(words[w], known[words[w]]) for w in like)
            near = f" Similar: {'; '.join(who)}." if who else ""
            raise ValueError(f'There is no "{student}" in {self.folder}.{near}')

    def lesson_named(self, text: str) -> str:
        """Returns the lesson that `1`, `01` or `01_pmap_spmd` means.

        Raises:
            ValueError: this course has no such lesson.
        """
        for name in self.lessons:
            if names_lesson(text, name):
                return name
        have = ", ".join(self.lessons)
        raise ValueError(f'This course has no lesson "{text}". It has: {have}.')

    def members(self, section: str) -> set[str]:
        """Returns the ids of the learners in a section.

        Raises:
            ValueError: the roster has no such section.
        """
        sections = read_sections(self.roster)
        for name, students in sections.items():
            if name.casefold() == section.strip().casefold():
                return students
        have = ", ".join(sections) or "none"
        raise ValueError(f'{self.roster} has no section "{section}". It has: {have}.')

    def _submitted(self) -> list[Submission]:
        root = self.folder / self.directory.submitted_directory
        found = root.glob("*/*")
        return sorted(Submission(path.name, path.parent.name, path) for path in found)

    def published_path(self, submission: Submission) -> Path:
        """Names the file with a submission's `Publication`."""
        folder = self.folder / "grading" / "published"
        return folder / submission.lesson / submission.student

    def publication(self, submission: Submission) -> Publication:
        """Reads what is published; of a damaged file, as if there was nothing."""
        try:
            return Publication(**json.loads(read_text(self.published_path(submission))))
        except (ValueError, TypeError):
            return Publication()

    def write_publication(self, submission: Submission, now: Publication) -> None:
        text = json.dumps(dataclasses.asdict(now))
        write(self.published_path(submission), text + "\n")

    def published(self, submission: Submission) -> Record | None:
        return self.store.get(self.publication(submission).key)

    def names(self) -> dict[str, str]:
        """Maps learners' ids to their names; grading itself uses only the ids."""
        return read_names(self.roster)

    def earlier_path(self, submission: Submission) -> Path:
        """Names the file that lists the files which a newer one superseded."""
        folder = self.folder / "grading" / "earlier"
        return folder / submission.lesson / submission.student

    def received_path(self, submission: Submission) -> Path:
        """Names the file that says under which name the submission was downloaded."""
        folder = self.folder / "grading" / "received"
        return folder / submission.lesson / submission.student
