"""Collects downloads from an LMS into a course folder.

The newest of a learner's files for a lesson counts. Grading works on ids: names are
only returned.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.atomic_files import write_file
from grader.submissions.answers import is_other_lesson
from grader.submissions.archives import ListedFile, Unreadable, file_at, files_in
from grader.submissions.clean_text import quoted
from grader.submissions.lms_names import (
    Owner,
    copy_number,
    lesson_named,
    owner_of,
    safe_id,
)
from grader.submissions.read_submission import parse_submission


def collect(
    downloads: Iterable[Path],
    course: Path,
    lessons: Sequence[str],
    known_as: Mapping[str, str] | None = None,
) -> Collection:
    """Puts what learners submitted into submitted/ID/LESSON/LESSON.ipynb.

    `downloads` are zips of Canvas or Moodle, or folders, zips and files that are named
    like `ada_01_pmap_spmd.ipynb`, `ada/01_pmap_spmd.ipynb` or as nbgrader does. Files
    are not changed, not even damaged ones.

    `known_as` maps numbers that an LMS gives a learner to the id that we keep: Moodle
    gives another one in each assignment.

    Raises:
        ValueError: `course` is no folder.
        OSError: this machine cannot read or write a file.
    """
    if not course.is_dir():
        make = "Make it: python -m grader course FOLDER"
        raise ValueError(f"{course} is no course folder. {make}")
    collection = Collection(course, lessons, known_as)
    for download in downloads:
        for file in files_in(Path(download), lessons, collection.problems):
            collection.add(file, Path(download).name)
    students = {student for student, _ in collection.placed}
    for student, files in collection.other_files.items():
        if student not in students:
            found = ", ".join(dict.fromkeys(files[:5]))
            collection.problems.append(
                f"{student} submitted no notebook, only {found}."
            )
    return collection


@dataclass(frozen=True)
class Version:
    """One of the files that a learner submitted for a lesson.

    Attributes:
        name: what to call it in a message.
        kind: 2 for a notebook, 1 for an archive, 0 for all else.
        time: when it was submitted, in seconds since 1970.
        digest: the hash of its bytes.
        number: Canvas's number of the file, which grows; 0 elsewhere.
        copy: the number that its name got as a second file.
    """

    name: str
    kind: int
    time: float
    digest: str
    number: int = 0
    copy: int = 0

    def supersedes(self, other: Version) -> bool:
        if self.kind != other.kind:
            return self.kind > other.kind
        if self.number and other.number:
            return self.number > other.number
        return (self.time, self.copy) > (other.time, other.copy)


class Collection:
    """Sorts files into a course folder.

    Attributes:
        placed: the files that are in their place, by student's id and lesson.
        received: the path in its download of the file that counts, as `placed`.
        names: display names by id, of these downloads.
        other_files: names of the files that answer no lesson, by learner.
        problems: one line for each file that could not be placed, and for each choice.
    """

    def __init__(
        self,
        course: Path,
        lessons: Sequence[str],
        known_as: Mapping[str, str] | None = None,
    ):
        self.course, self.lessons = course, lessons
        self.known_as = known_as or {}
        self.placed: dict[tuple[str, str], Version] = {}
        self.received: dict[tuple[str, str], str] = {}
        self.names: dict[str, str] = {}
        self.other_files: dict[str, list[str]] = {}
        self.problems: list[str] = []

    def add(self, file: ListedFile, download: str) -> None:
        """Puts a file into its place, or says why not."""
        name = quoted("/".join(file.parts))
        owner = owner_of(file.parts, self.lessons)
        if owner is None:
            lesson = next(iter(self.lessons), "LESSON")
            remedy = f"Name it like ada_{lesson}.ipynb, or put it into a folder ada/."
            self.problems.append(f"{name} does not say whose it is. {remedy}")
            return
        safe = safe_id(owner.student)
        student = self.known_as.get(safe, safe)
        try:
            lesson = self.lesson_of(file, owner, download)
            data = file.read() if lesson else b""
        except Unreadable as problem:
            self.problems.append(f"{student}: {name} {problem}. Ask for it once more.")
            return
        if lesson:
            kind = 2 if file.is_notebook else int(file.is_archive)
            copy = copy_number(owner.path[-1])
            new = Version(name, kind, file.time, digest(data), owner.version, copy)
            self.place(student, lesson, new, data)
            counting = self.placed.get((student, lesson))
            if counting and counting.digest == new.digest:
                self.received[student, lesson] = "/".join(file.parts)
            name = owner.name
            if safe != owner.student and student not in self.names:
                what = f"{quoted(owner.student)} cannot name a folder"
                self.problems.append(f"{what}: filed as {student}.")
                name = name or owner.student
            if name:
                self.names.setdefault(student, name)
        elif file.is_notebook:
            line = f"{student}: {name} does not say which lesson it is."
            self.problems.append(f"{line} Rename it to {student}_LESSON.ipynb.")
        else:
            self.other_files.setdefault(student, []).append(quoted(file.name))

    def lesson_of(self, file: ListedFile, owner: Owner, download: str) -> str:
        """Names the lesson that a file answers: by its name, else by its cells."""
        if not owner.path:
            return ""
        named = lesson_named(owner.path, self.lessons)
        if named or not (file.is_notebook or owner.from_lms):
            return named
        if len(self.lessons) == 1:
            return self.lessons[0]
        notebook = parse_submission(file.read()).notebook if file.is_notebook else None
        fitting = [
            lesson
            for lesson, source in self.sources.items()
            if notebook and not is_other_lesson(notebook, source)
        ]
        if len(fitting) == 1:
            return fitting[0]
        return lesson_named([download], self.lessons)

    @functools.cached_property
    def sources(self) -> dict[str, NotebookNode]:
        """The lessons in the course folder."""
        folder = self.course / "source"
        paths = {name: folder / name / f"{name}.ipynb" for name in self.lessons}
        return {n: nbformat.read(p, 4) for n, p in paths.items() if p.exists()}

    def place(self, student: str, lesson: str, new: Version, data: bytes) -> None:
        """Writes a file into its place, unless the one there supersedes it.

        Raises:
            OSError: the file cannot be written.
        """
        path = self.course / "submitted" / student / lesson / f"{lesson}.ipynb"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            old = self.placed.get((student, lesson)) or on_disk(path)
        except (FileExistsError, NotADirectoryError, Unreadable):
            what = f"Something else is in the place of {path}. Remove it."
            self.problems.append(f"{student}, {lesson}: {what}")
            return
        supersedes = old is None or new.supersedes(old)
        if old is None or old.digest != new.digest:
            if old and old.kind == new.kind:
                order = "is newer than" if supersedes else "is not newer than"
                which = "and counts" if supersedes else "which counts"
                line = f"{new.name} {order} {old.name}, {which}."
                self.problems.append(f"{student}, {lesson}: {line}")
            if not supersedes:
                return
            write_file(path, data, new.time)
        self.placed[student, lesson] = new if supersedes else old


def on_disk(path: Path) -> Version | None:
    """Describes the file that an earlier collection left; None: there is none.

    Raises:
        Unreadable: it is no regular file.
    """
    if not os.path.lexists(path):
        return None
    file = file_at(path)
    return Version(
        "the file of an earlier collection", 2, file.time, digest(file.read())
    )


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
