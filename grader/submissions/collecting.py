"""Puts downloads from an LMS into a course folder, each learner's file in its place.

Of a learner's files for a lesson the newest counts. Grading works on ids: names are
only handed back.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.atomic_files import write_file
from grader.submissions.answers import is_other_lesson
from grader.submissions.archives import Found, files_in
from grader.submissions.lms_names import (
    Ambiguous,
    Owner,
    copy_number,
    lesson_named,
    owner_of,
    safe_id,
    shown,
)
from grader.submissions.read_submission import parse_submission
from grader.submissions.safe_reading import MAX_FILE, Unreadable, read_file

# What lies beside a notebook and is no answer.
BESIDES = {"timestamp.txt", "coursekit"}


@dataclasses.dataclass(frozen=True)
class Collected:
    """What became of downloads.

    Attributes:
        taken: (student's id, lesson) of each file that lies in its place now.
        names: display names by id, of these downloads.
        problems: one line for each file that could not be placed, and for each choice.
    """

    taken: tuple[tuple[str, str], ...]
    names: dict[str, str]
    problems: tuple[str, ...]


def collect(
    downloads: Iterable[Path], course: Path, lessons: Sequence[str]
) -> Collected:
    """Puts what learners handed in into submitted/ID/LESSON/LESSON.ipynb.

    `downloads` are zips of Canvas or Moodle, or folders, zips and files that are named
    like `ada_01_pmap_spmd.ipynb`, `ada/01_pmap_spmd.ipynb` or as nbgrader does. Files
    are not changed, damaged ones neither. The newest one of a learner counts.

    Raises:
        ValueError: `course` is no folder.
        OSError: this machine cannot read or write a file.
    """
    if not course.is_dir():
        make = "Make it: python -m grader course FOLDER"
        raise ValueError(f"{course} is no course folder. {make}")
    collection = Collection(course, lessons)
    for download in downloads:
        for file in files_in(Path(download), lessons, collection.problems):
            collection.add(file, Path(download).name)
    for student, names in collection.others.items():
        if student not in {student for student, _ in collection.submitted.taken}:
            found = ", ".join(dict.fromkeys(names[:5]))
            collection.problems.append(
                f"{student} handed in no notebook, only {found}."
            )
    problems = tuple(dict.fromkeys(collection.problems))
    return Collected(
        tuple(sorted(collection.submitted.taken)), collection.names, problems
    )


class Collection:
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

    def add(self, file: Found, download: str) -> None:
        """Puts a file into its place, or says why not."""
        name = shown("/".join(file.parts))
        try:
            owner = owner_of(file.parts, self.lessons)
        except Ambiguous as problem:
            remedy = (
                "Nobody got it: ask whose it is, and hand it in under ID_LESSON.ipynb."
            )
            self.problems.append(f"{name} {problem}. {remedy}")
            return
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
            self.note_name(student, owner)
        elif kind < 2:
            self.others.setdefault(student, []).append(shown(file.parts[-1]))
        else:
            line = f"{student}: {name} does not say which lesson it is."
            self.problems.append(f"{line} Rename it to {student}_LESSON.ipynb.")

    def note_name(self, student: str, owner: Owner) -> None:
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
        if not owner.names or BESIDES & {*owner.names}:
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


@dataclasses.dataclass(frozen=True)
class HandedIn:
    """One file that a learner handed in for a lesson.

    Attributes:
        name: what to call it in a message.
        kind: 2 for a notebook, 1 for an archive, 0 for all else.
        time: when it was handed in, in seconds since 1970.
        digest: the hash of its bytes.
        version: Canvas's number of the file, which grows; 0 elsewhere.
        copy: the number that its name got as a second file.
    """

    name: str
    kind: int
    time: float
    digest: str
    version: int = 0
    copy: int = 0

    def beats(self, other: HandedIn) -> bool:
        """Tells whether this file counts, of two for one lesson."""
        if self.kind != other.kind:
            return self.kind > other.kind
        if self.version and other.version:
            return self.version > other.version
        return (self.time, self.copy) > (other.time, other.copy)


class Submitted:
    """The folder submitted/ of a course, as one collection fills it.

    Attributes:
        taken: (student's id, lesson) of each file that lies in its place.
    """

    def __init__(self, course: Path):
        self.folder = course / "submitted"
        self.taken: set[tuple[str, str]] = set()
        self._placed: dict[tuple[str, str], HandedIn] = {}

    def place(self, student: str, lesson: str, new: HandedIn, data: bytes) -> str:
        """Puts a file into its place; says what there was to decide, or "".

        A file that is older than the one there, or less of a notebook, is left out.

        Raises:
            OSError: the file cannot be written.
        """
        target = self.folder / student / lesson / f"{lesson}.ipynb"
        try:
            old = self._placed.get((student, lesson)) or on_disk(target)
        except Unreadable as problem:
            return f"{student}, {lesson}: {target} {problem}. Remove it."
        said = ""
        if old is not None and old.digest != new.digest:
            counts = new.beats(old)
            relation = "is newer than" if counts else "is not newer than"
            which = "and counts" if counts else "which counts"
            if new.kind == old.kind:
                said = (
                    f"{student}, {lesson}: {new.name} {relation} {old.name}, {which}."
                )
            if not counts:
                return said
        if old is None or old.digest != new.digest:
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                return f"{student}, {lesson}: {target.parent} is a file. Remove it."
            write_file(target, data, new.time)
        if old is None or new.beats(old):
            self._placed[student, lesson] = new
        self.taken.add((student, lesson))
        return said


def on_disk(path: Path) -> HandedIn | None:
    """Describes the file that an earlier collection left; None: there is none.

    Raises:
        Unreadable: what lies there is no ordinary file.
    """
    if not os.path.lexists(path):
        return None
    data, time = read_file(path, MAX_FILE), path.stat().st_mtime
    return HandedIn("the file of an earlier collection", 2, time, digest_of(data))


def digest_of(data: bytes) -> str:
    """Hashes a file's bytes."""
    return hashlib.sha256(data).hexdigest()
