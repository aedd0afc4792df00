"""Fills a course's folder submitted/: of a learner's files for a lesson, the newest."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path

from grader.files import MAX_FILE, Unreadable, read_file
from grader.own_files import write_file


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
