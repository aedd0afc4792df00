"""A class's folder, as nbgrader lays it out: its lessons, submissions and settings."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader

from grader.authoring.release import with_checks
from grader.classroom.roster import read_names
from grader.classroom.store import Store

SEED = Path("grading", "seed.txt")  # of the cases that hidden tests generate


@dataclasses.dataclass(frozen=True, order=True)
class Submission:
    """What one learner handed in for one lesson; `folder` holds the files."""

    lesson: str
    student: str
    folder: Path = dataclasses.field(compare=False)

    def __str__(self) -> str:
        return f"{self.student} {self.lesson}"


class Classroom:
    """One course folder.

    Attributes:
        folder: the folder.
        store: where its results and its log are kept.

    Raises:
        ValueError: `folder` is no course folder, or one of an earlier version.
    """

    def __init__(self, folder: Path):
        self.folder = folder.expanduser().resolve()
        config = self.folder / "nbgrader_config.py"
        if not config.is_file():
            raise ValueError(
                f"{folder} is no course folder: it has no nbgrader_config.py. Make one "
                f"with: python -m grader course {folder}"
            )
        loader = PyFileConfigLoader(config.name, path=str(self.folder))
        try:
            settings = loader.load_config()
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("grader."):
                raise
            raise ValueError(
                f"{config} imports {error.name}, as an earlier version of the course "
                "wrote it. Make a new folder with `python -m grader course`, and take "
                "the lines that import something of the grader from its "
                "nbgrader_config.py."
            ) from None
        self.directory = CourseDirectory(config=settings, root=str(self.folder))
        self.store = Store(self.folder / "grading")
        self._read: dict[str, NotebookNode] = {}

    @property
    def db_url(self) -> str:
        """Address of nbgrader's gradebook."""
        return self.directory.db_url

    @functools.cached_property
    def lessons(self) -> tuple[str, ...]:
        """Names of the lessons in source/."""
        source = self.folder / self.directory.source_directory
        found = (path for path in source.iterdir() if source.is_dir())
        return tuple(sorted(p.name for p in found if (p / f"{p.name}.ipynb").is_file()))

    @property
    def course_id(self) -> str:
        """The course's id in the gradebook."""
        return self.directory.course_id

    def lesson(self, name: str) -> NotebookNode:
        """Reads a solved lesson with its checks, as the class has it.

        Raises:
            ValueError: an earlier version of the course made it.
        """
        if name not in self._read:
            source = self.folder / self.directory.source_directory / name
            notebook = nbformat.read(source / f"{name}.ipynb", as_version=4)
            checks = source / "coursekit" / "checks" / f"{name}.py"
            if not checks.is_file():
                raise ValueError(
                    f"{checks} is missing: the lesson was made by an earlier version "
                    f"of the course. Renew it: python -m grader course {self.folder} "
                    "--update"
                )
            text = checks.read_text(encoding="utf-8")
            self._read[name] = with_checks(notebook, text)
            self._read[name].metadata["seed"] = self.seed
        return self._read[name]

    @functools.cached_property
    def seed(self) -> int:
        """The class's seed of generated cases; 0 in a folder made without one.

        Raises:
            ValueError: the file that holds it does not hold a number.
        """
        path = self.folder / SEED
        text = path.read_text(encoding="utf-8").strip() if path.exists() else "0"
        if not text.isascii() or not text.isdigit():
            raise ValueError(f"{path} holds {text[:50]!r}: write a whole number there.")
        return int(text)

    @property
    def solved(self) -> dict[str, NotebookNode]:
        """All lessons, as `lesson` reads them, by name."""
        return {name: self.lesson(name) for name in self.lessons}

    def path(self, kind: str, student: str, lesson: str) -> Path:
        """Names a learner's "submitted", "autograded" or "feedback" folder."""
        name = getattr(self.directory, f"{kind}_directory")
        return Path(self.directory.format_path(name, student, lesson))

    def submissions(self) -> list[Submission]:
        """Lists everything that was submitted, by lesson and learner.

        A folder for something else than a lesson of this course is not among it.
        """
        root = self.folder / self.directory.submitted_directory
        if not root.is_dir():
            return []
        return sorted(
            Submission(lesson, student.name, student / lesson)
            for student in root.iterdir()
            for lesson in self.lessons
            if (student / lesson).is_symlink() or (student / lesson).exists()
        )

    def strays(self) -> list[str]:
        """Names the folders in submitted/ that belong to no lesson of this course."""
        root = self.folder / self.directory.submitted_directory
        if not root.is_dir():
            return []
        found = (
            path
            for student in root.iterdir()
            if student.is_dir()
            for path in student.iterdir()
            if path.name not in self.lessons
        )
        return sorted(str(path.relative_to(self.folder)) for path in found)

    @property
    def roster(self) -> Path:
        """Names the file that joins learners' ids with their names."""
        return self.folder / "grading" / "people.csv"

    def names(self) -> dict[str, str]:
        """Maps learners' ids to names, which only exports and pages show."""
        return read_names(self.roster)
