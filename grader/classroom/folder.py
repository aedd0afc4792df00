"""A class's folder, as nbgrader lays it out: its lessons, submissions and settings."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader

from grader import ROOT
from grader.authoring.lesson import read_lesson, repository_address
from grader.authoring.notebook import checks, nbgrader_metadata
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
        ValueError: `folder` is no course folder.
    """

    def __init__(self, folder: Path):
        self.folder = folder.expanduser().resolve()
        config = self.folder / "nbgrader_config.py"
        if not config.is_file():
            raise ValueError(
                f"{folder} is no course folder: it has no nbgrader_config.py. Make one "
                f"with: python -m grader course {folder}"
            )
        settings = PyFileConfigLoader(config.name, path=str(self.folder)).load_config()
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
        """Reads a solved lesson with its hidden tests, as the class has it."""
        if name not in self._read:
            source = self.folder / self.directory.source_directory / name
            notebook = nbformat.read(source / f"{name}.ipynb", as_version=4)
            self._read[name] = current(notebook, name, self.folder)
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


def current(notebook: NotebookNode, name: str, folder: Path) -> NotebookNode:
    """Returns a class's lesson; today's in place of one made before December 2026.

    The modules that such a lesson imports are gone.

    Raises:
        ValueError: today's lesson of that name has other exercises or points.
    """
    setup = next((cell.source for cell in notebook.cells if cell.id == "setup"), "")
    if "\nimport start\n" not in setup:
        return notebook
    path = ROOT / "solutions" / f"{name}.py"
    today = read_lesson(path, repository_address()) if path.is_file() else None
    if today is None or points_of(today) != points_of(notebook):
        raise ValueError(
            f"The lesson {name} in {folder / 'source'} was made by an earlier version "
            f"of the course. Renew it: python -m grader course {folder} --update"
        )
    return today


def points_of(lesson: NotebookNode) -> dict[str, float]:
    """Maps a lesson's exercises to their points."""
    found = checks(lesson).items()
    return {name: nbgrader_metadata(check)["points"] for name, check in found}
