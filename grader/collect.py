"""Puts downloads from an LMS into a course folder, each learner's file in its place.

Grading works on ids: learners' names go into grading/people.csv and nowhere else.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader import MODULES
from grader.downloads import Found, files_in
from grader.files import Unreadable
from grader.intake import parse_submission
from grader.naming import Owner, copy_number, lesson_named, owner_of, safe_id, shown
from grader.notebooks import is_other_lesson
from grader.people import merge_people
from grader.submitted import HandedIn, Submitted, digest_of

# What lies beside a notebook and is no answer.
BESIDES = {"timestamp.txt", *(f"{name}.py" for name in MODULES)}


@dataclasses.dataclass(frozen=True)
class Collected:
    """What became of downloads.

    Attributes:
        taken: (student's id, lesson) of each file that lies in its place now.
        people: display names by id, those of earlier downloads too.
        problems: one line for each file that could not be placed, and for each choice.
    """

    taken: tuple[tuple[str, str], ...]
    people: dict[str, str]
    problems: tuple[str, ...]


def collect(
    downloads: Iterable[Path], course: Path, lessons: Sequence[str]
) -> Collected:
    """Puts what learners handed in into submitted/ID/LESSON/LESSON.ipynb.

    `downloads` are zips of Canvas or Moodle, or folders, zips and files that are named
    like `ada_01_pmap_spmd.ipynb`, `ada/01_pmap_spmd.ipynb` or as nbgrader does. Files
    are not changed, damaged ones neither. The newest one of a learner counts.

    Raises:
        ValueError: `course` is no folder, or its people.csv is damaged.
        OSError: this machine cannot read or write a file.
    """
    if not course.is_dir():
        make = "Make it: python -m grader course FOLDER"
        raise ValueError(f"{course} is no course folder. {make}")
    people = course / "grading" / "people.csv"
    merge_people(people, {})
    desk = Desk(course, lessons)
    for download in downloads:
        for file in files_in(Path(download), lessons, desk.problems):
            desk.take(file, Path(download).name)
    for student, names in desk.others.items():
        if student not in {student for student, _ in desk.submitted.taken}:
            found = ", ".join(dict.fromkeys(names[:5]))
            desk.problems.append(f"{student} handed in no notebook, only {found}.")
    named = merge_people(people, desk.names)
    problems = tuple(dict.fromkeys(desk.problems))
    return Collected(tuple(sorted(desk.submitted.taken)), named, problems)


class Desk:
    """Sorts files into a course folder.

    Attributes:
        submitted: what lies in its place.
        names: display names by id.
        others: files that are no answers, by learner.
        problems: lines for the instructor.
    """

    def __init__(self, course: Path, lessons: Sequence[str]):
        self.course, self.lessons = course, lessons
        self.submitted = Submitted(course)
        self.names: dict[str, str] = {}
        self.others: dict[str, list[str]] = {}
        self.problems: list[str] = []

    def take(self, file: Found, download: str) -> None:
        """Puts a file into its place, or says why not."""
        name = shown("/".join(file.parts))
        owner = owner_of(file.parts, self.lessons)
        if owner is None:
            lesson = next(iter(self.lessons), "LESSON")
            remedy = f"A notebook is named like ada_{lesson}.ipynb, or lies in ada/."
            self.problems.append(f"{name} does not say whose it is. {remedy}")
            return
        student = safe_id(owner.student)
        kind = kind_of(owner.names[-1]) if owner.names else 0
        try:
            lesson = self.lesson_of(owner, kind, file.read, download)
            data = file.read() if lesson else b""
        except Unreadable as problem:
            self.problems.append(f"{student}: {name} {problem}. Ask for it once more.")
            return
        if lesson:
            copy, digest = copy_number(owner.names[-1]), digest_of(data)
            new = HandedIn(name, kind, file.time, digest, owner.version, copy)
            said = self.submitted.place(student, lesson, new, data)
            self.problems += [said] if said else []
            self.introduce(student, owner)
        elif kind < 2:
            self.others.setdefault(student, []).append(shown(file.parts[-1]))
        else:
            line = f"{student}: {name} does not say which lesson it is."
            self.problems.append(f"{line} Rename it to {student}_LESSON.ipynb.")

    def introduce(self, student: str, owner: Owner) -> None:
        """Keeps a learner's name, and says where their own id could not be used."""
        name = owner.name
        if student != owner.student:
            name = name or owner.student
            what = f"{shown(owner.student)} cannot name a folder"
            self.problems.append(f"{what}: filed as {student}.")
        if name:
            self.names.setdefault(student, name)

    def lesson_of(
        self, owner: Owner, kind: int, read: Callable[[], bytes], download: str
    ) -> str:
        """Names the lesson that a file answers: by its name, else by its cells."""
        if not owner.names or owner.names[-1] in BESIDES:
            return ""
        named = lesson_named(owner.names, self.lessons)
        if named or (kind < 2 and not owner.from_lms):
            return named
        if len(self.lessons) == 1:
            return self.lessons[0]
        notebook = parse_submission(read()).notebook if kind == 2 else None
        fitting = [
            lesson
            for lesson, source in self.sources.items()
            if notebook and not is_other_lesson(notebook, source)
        ]
        return (
            fitting[0] if len(fitting) == 1 else lesson_named([download], self.lessons)
        )

    @functools.cached_property
    def sources(self) -> dict[str, NotebookNode]:
        """The lessons that lie in the course folder."""
        folder = self.course / "source"
        paths = {name: folder / name / f"{name}.ipynb" for name in self.lessons}
        return {
            name: nbformat.read(path, as_version=4)
            for name, path in paths.items()
            if path.exists()
        }


def kind_of(file: str) -> int:
    """Rates a file by its name: 2 for a notebook, 1 for an archive, 0 for all else."""
    return {".ipynb": 2, ".zip": 1}.get(Path(file).suffix.lower(), 0)
