"""Collects downloads from an LMS into a course folder.

A file's owner is decided by its path outside any learner's archive; its lesson by its
cells. Every file that came in is accounted for. Grading works on ids: names are only
returned.
"""

from __future__ import annotations

import collections
import enum
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from nbformat import NotebookNode

from coursekit.i18n import plural
from grader import ROOT, CourseError
from grader.atomic_files import write_file
from grader.lessons.release import lesson_number, lesson_paths
from grader.submissions.archives import (
    MAX_TOTAL,
    Archive,
    ListedFile,
    TooLarge,
    Unreadable,
    file_at,
    files_in_folder,
    files_in_learners_archive,
)
from grader.submissions.clean_text import quoted
from grader.submissions.course_notebooks import CourseNotebooks, read
from grader.submissions.lms_names import (
    DAY,
    LearnerNames,
    Owner,
    fit,
    lesson_named,
    original,
    safe_id,
    stem,
)
from grader.submissions.owners import (
    is_candidate,
    is_same,
    named_learners,
    owners,
)
from grader.submissions.read_submission import is_aside, parse_submission
from grader.submissions.versions import Version, best_of, listed

Strangers = Callable[[Set[str]], tuple[list[str], str]]


def collect(
    downloads: Iterable[Path],
    course: Path,
    lessons: Sequence[str],
    known_as: Mapping[str, str] | None = None,
    strangers: Strangers = lambda students: ([], ""),
) -> Collection:
    """Puts what learners submitted into submitted/ID/LESSON/LESSON.ipynb.

    `downloads` are zips of an LMS, or folders, zips and files that are named like
    `ada_01_pmap_spmd.ipynb`, `ada/01_pmap_spmd.ipynb` or as nbgrader does. Files are
    not changed, not even damaged ones.

    `known_as` maps other ids of learners to those that we keep: Moodle, for one, gives
    a learner another number in each assignment. `strangers` lists those of a download's
    ids that a person has to look at, and says why.

    Raises:
        ValueError: a download does not exist.
        OSError: this machine cannot read or write a file.
        CourseError: a file that came in is not accounted for.
    """
    for download in downloads:
        if not (Path(download).is_dir() or Path(download).is_file()):
            name = quoted(str(download), 300)
            raise ValueError(f"{name} is no file and no folder: nothing was collected.")
    collection = Collection(course, lessons, known_as or {}, strangers)
    for download in downloads:
        collection.add(Path(download))
    collection.finish()
    return collection


class Fate(enum.Enum):
    """What became of a file, as a sentence about one file and about several says it."""

    COUNTS = "counts", "count"
    OLDER = "is older", "are older"
    FOR_A_PERSON = "is left for a person", "are left for a person"
    OURS = "is the course's own", "are the course's own"
    NO_NOTEBOOK = "is no notebook", "are no notebooks"


class Collection:
    """Sorts files into a course folder.

    Attributes:
        placed: the files that are in their place, by student's id and lesson.
        superseded: the learner's other notebooks of the lesson in these downloads.
        names: display names by id, of these downloads.
        problems: one line for each file that could not be placed, and for each choice.
        left: those of the lines that are about files which were left for a person.
        account: each file that came in, and what became of it.
    """

    def __init__(
        self,
        course: Path,
        lessons: Sequence[str],
        known_as: Mapping[str, str],
        strangers: Strangers,
    ):
        self.course, self.lessons, self.known_as = course, lessons, known_as
        self.strangers = strangers
        numbers = {*map(lesson_number, lessons)}
        self.others = [  # lessons that this class does not have
            path.stem
            for path in lesson_paths()
            if lesson_number(path.stem) not in numbers
        ]
        self.known_lessons = [*lessons, *self.others]
        self.placed: dict[tuple[str, str], Version] = {}
        self.superseded: dict[tuple[str, str], list[Version]] = {}
        self.names: dict[str, str] = {}
        self.problems: list[str] = []
        self.left: set[str] = set()
        self.account: list[tuple[str, Fate]] = []
        self.listed: collections.Counter[str] = collections.Counter()
        self.other_files: dict[str, list[str]] = {}
        self.at_work: set[str] = set()  # learners with a file that answers a lesson
        self.unchanged: set[str] = set()  # learners with unchanged notebooks of ours
        self.learner_names = LearnerNames(self.known_lessons)

    @functools.cached_property
    def notebooks(self) -> CourseNotebooks:
        folder = self.course / "source"
        paths = {name: folder / name / f"{name}.ipynb" for name in self.lessons}
        paths |= {name: ROOT / "solutions" / f"{name}.ipynb" for name in self.others}
        return CourseNotebooks({n: read(p) for n, p in paths.items() if p.exists()})

    @property
    def summary(self) -> str:
        """Sums the account up, as in "3 files: 1 counts, 2 are older."."""
        count = collections.Counter(fate for _, fate in self.account)
        parts = [f"{count[f]} {f.value[count[f] != 1]}" for f in Fate if count[f]]
        total = len(self.account)
        return f"{total} file{plural(total)}: {', '.join(parts) or 'none'}."

    def finish(self) -> None:
        """Names learners without a notebook, and checks the account.

        Raises:
            CourseError: a file is missing in it, or in it twice.
        """
        for student, files in self.other_files.items():
            if student not in self.at_work | self.unchanged:
                found = ", ".join(dict.fromkeys(quoted(file) for file in files[:5]))
                self.problems.append(f"{student} submitted no notebook, only {found}.")
        for student in sorted(self.unchanged - self.at_work):
            what = "changed none of the course's notebooks in their repository"
            self.problems.append(f"{student} {what}.")
        accounted = collections.Counter(path for path, _ in self.account)
        if accounted != self.listed:
            wrong = [*(self.listed - accounted), *(accounted - self.listed)]
            shown = ", ".join(quoted(path, 300) for path in wrong[:5])
            raise CourseError(
                f"Nothing was graded, since {len(wrong)} files are not accounted for: "
                f"{shown}. Please report this as a fault of the grader."
            )

    def add(self, download: Path) -> None:
        """Puts the files of a download into their places, or says why not."""
        if download.is_dir():
            files = files_in_folder(download)
            archives = [file for file in files if file.is_archive]
            if self.are_of_classes(files, archives):
                for file in archives:
                    self.add_archive(file)
            else:
                is_clone = (download / ".git").exists()
                name = download.resolve().name
                self.add_files(files, (name,), may_be_one=is_clone)
        elif file_at(download).is_archive:
            self.add_archive(file_at(download))
        else:
            self.add_files([file_at(download)])

    def are_of_classes(
        self, files: list[ListedFile], archives: list[ListedFile]
    ) -> bool:
        """Tells whether a folder holds nothing but downloads, one at least of an LMS.

        Else each archive in it is a learner's.
        """
        if not archives or any(file.is_notebook for file in files):
            return False
        owners_found: list[Owner | None] = []
        for archive in archives:
            with open(archive.path, "rb") as source:
                try:
                    inside = [*Archive(source, MAX_TOTAL).files(archive)]
                except Unreadable:
                    return False
            paths = [file.parts[len(archive.parts) :] for file in inside]
            owned = zip(paths, owners(paths, self.known_lessons), strict=True)
            owners_found += [owner for path, owner in owned if is_candidate(path)]
        return all(owners_found) and any(owner.from_lms for owner in owners_found)

    def add_archive(self, file: ListedFile) -> None:
        """Adds the files of an archive that holds a class's, or one learner's."""
        with open(file.path, "rb") as source:  # it may be larger than the memory
            try:
                files = [*Archive(source, MAX_TOTAL).files(file)]
            except Unreadable as problem:
                self.listed[file.full_name] += 1
                again = "Download it again, or ask for it."
                self.leave([file.full_name], f"{shown(file)} {problem}. {again}")
            else:
                self.add_files(files, file.parts, may_be_one=True)

    def add_files(
        self,
        files: list[ListedFile],
        folder: tuple[str, ...] = (),
        *,
        may_be_one: bool = False,
    ) -> None:
        """Adds the files below `folder`, a class's or one learner's."""
        self.listed.update(file.full_name for file in files)
        name = re.sub(r"(?i)\.zip$", "", folder[-1]) if folder else ""
        paths = [file.parts[len(folder) :] for file in files]
        by_student: dict[str, list[tuple[ListedFile, Owner]]] = {}
        file_owners = owners(paths, self.known_lessons, name, may_be_one)
        others = self.others_named({owner.student for owner in file_owners if owner})
        for file, owner in zip(files, file_owners, strict=True):
            if file.problem:
                line = f"{shown(file)} {file.problem}: not collected."
                self.leave([file.full_name], line)
            elif owner and (clash := others(owner)):
                self.leave([file.full_name], f"{shown(file)} {clash}")
            elif owner:
                student = safe_id(owner.student)
                student = self.known_as.get(student, student)
                by_student.setdefault(student, []).append((file, owner))
            elif is_candidate(file.parts):
                line = f"{shown(file)} does not say whose it is. Name it like"
                remedy = f"ada_{next(iter(self.lessons), 'LESSON')}.ipynb, or put it "
                remedy += "into a folder ada/, and name the folder around that."
                if file.is_archive:
                    remedy = "ada.zip, or give the download of a class as an argument "
                    remedy += "of its own."
                self.leave([file.full_name], f"{line} {remedy}")
            else:
                self.account.append((file.full_name, Fate.NO_NOTEBOOK))
        strangers, why = self.strangers(by_student.keys())
        if own := [one for who in strangers for one in by_student.pop(who)]:
            line = f"{quoted(name)}: {why}"
            self.leave([file.full_name for file, _ in own], line)
        for student, own in by_student.items():
            self.add_learner(student, own, name)

    def others_named(self, learners: set[str]) -> Callable[[Owner], str]:
        """Makes a function that says how a file may be another learner's, or ""."""
        by_name = {
            self.learner_names.without_work(learner): learner for learner in learners
        }
        made_up = {
            safe_id(learner): learner
            for learner in learners
            if safe_id(learner) != learner
        }

        def clash(owner: Owner) -> str:
            named = self.other_learner(owner)
            if other := by_name.get(named) if named else "":
                where = f"is in {owner.student}'s folder, but named after {other}"
                return f"{where}: rename it, or move it into {other}/."
            if other := made_up.get(owner.student):
                return (
                    f"is named by {owner.student}, the id that was made for "
                    f"{quoted(other)}. Rename it."
                )
            return ""

        return clash

    def add_learner(
        self, student: str, own: list[tuple[ListedFile, Owner]], download: str
    ) -> None:
        """Places the best of a learner's files for each lesson."""
        owner = own[0][1]
        is_safe = safe_id(owner.student) == owner.student
        if not is_safe and student not in self.names:
            what = f"{quoted(owner.student)} cannot name a folder"
            self.problems.append(f"{what}: filed as {student}.")
        if name := owner.name or owner.student * (not is_safe):
            self.names.setdefault(student, name)
        opened = [
            (inside, owner, (*owner.inside, *inside.inner))
            for file, owner in own
            for inside in self.opened(student, file, owner)
        ]
        is_clone = any(in_repository(place) for _, _, place in opened)
        versions: dict[str, list[Version]] = {}
        for file, owner, place in opened:
            try:
                lesson, version = self.read(file, owner, place, download)
            except Unreadable as problem:
                line = f"{student}: {shown(file)} {problem}. Ask for it once more."
                self.leave([file.full_name], line)
                continue
            if version.is_ours and in_repository(place):
                self.unchanged.add(student)
                self.account.append((file.full_name, Fate.OURS))
            elif lesson in self.others:
                what = f"is of lesson {lesson}, which is not in this class's source/"
                self.leave([file.full_name], f"{student}: {shown(file)} {what}.")
            elif lesson and (version.kind or not is_clone):
                versions.setdefault(lesson, []).append(version)
            elif version.kind > 1:
                line = f"{student}: {shown(file)} does not say which lesson it is."
                remedy = f"Rename it to {student}_LESSON.ipynb."
                self.leave([file.full_name], f"{line} {remedy}")
            else:
                self.account.append((file.full_name, Fate.NO_NOTEBOOK))
                self.other_files.setdefault(student, []).append(file.name)
        for lesson, several in versions.items():
            self.at_work.add(student)
            self.choose(student, lesson, several)

    def opened(
        self, student: str, file: ListedFile, owner: Owner
    ) -> Iterator[ListedFile]:
        """Yields a learner's file, or what is in it, if that is theirs alone."""
        try:
            inside = files_in_learners_archive(file)
        except TooLarge as problem:
            line = f"{student}: {shown(file)} {problem}. Ask for the notebook alone."
            self.leave([file.full_name], line)
            return
        if inside != [file]:
            self.listed[file.full_name] -= 1
            self.listed.update(member.full_name for member in inside)
        inner = [
            member.inner for member in inside if member.inner and not owner.from_lms
        ]
        named = named_learners(inner, self.known_lessons)
        others = [name for name in named if not is_same(name, owner.student)]
        names = ", ".join(map(quoted, sorted(others)[:5]))
        if len(others) > 1:
            line = f"{shown(file)} holds files of {names}. If it is a class's download,"
            remedy = "name it on the command line, without others of its folder."
            self.leave([member.full_name for member in inside], f"{line} {remedy}")
            return
        if others:
            line = f"{shown(file)} holds a file that is named after {names}"
            self.problems.append(f"{student}: {line}; it is taken for {student}'s.")
        for member in inside:
            if member.problem:
                self.account.append((member.full_name, Fate.NO_NOTEBOOK))
            else:
                yield member

    def read(
        self, file: ListedFile, owner: Owner, place: tuple[str, ...], download: str
    ) -> tuple[str, Version]:
        """Returns the lesson that a file answers, or "", and what speaks for the file.

        Raises:
            Unreadable: the file cannot be read.
        """
        path = (*owner.path, *file.inner)
        is_one = owner.from_lms or is_candidate(path)
        is_one = is_one or any(
            fit(file.name, lesson_name) > 1 for lesson_name in self.lessons
        )
        lesson = lesson_named(path, self.lessons) if owner.path and is_one else ""
        only = self.lessons[0] if len(self.lessons) == 1 else ""
        kind, is_ours = int(file.is_archive), False
        may_be_one = file.is_notebook or file.is_text
        data = file.read() if lesson or may_be_one or owner.from_lms else b""
        notebook = parse_submission(data).notebook if may_be_one else None
        if notebook or file.is_notebook:
            by_name = lesson or only or lesson_named([download], self.lessons)
            lesson, kind, is_ours = self.known(notebook, by_name)
        elif owner.path and owner.from_lms:
            lesson = lesson or only
        version = Version(
            file.full_name,
            kind,
            owner.time or file.time,
            hashlib.sha256(data).hexdigest(),
            file,
            is_ours,
            is_aside(place),
            owner.version,
            file.inner_time,
            self.other_learner(owner),
        )
        return lesson, version

    def known(
        self, notebook: NotebookNode | None, by_name: str
    ) -> tuple[str, int, bool]:
        """Returns a notebook's lesson, its kind of version, and if it is our own."""
        if notebook is None:
            return by_name, 2, False
        cells = self.notebooks.exercise_cells(notebook)
        lesson = self.notebooks.lesson_of(notebook, cells) or by_name
        kind = 3 if self.notebooks.has_any(cells, lesson) else 2
        return lesson, kind, self.notebooks.is_ours(cells, lesson)

    def other_learner(self, owner: Owner) -> str:
        """Returns whom a name in a folder may name, other than the folder's learner."""
        if not owner.below or owner.below[0] in self.known_lessons:
            return ""
        *folders, file = owner.below
        undated = [DAY.sub("", original(one)) for one in (*folders, stem(file))]
        names = map(self.learner_names.without_work, undated)
        return next((n for n in names if n and not is_same(n, owner.student)), "")

    def choose(self, student: str, lesson: str, versions: list[Version]) -> None:
        """Places the version that counts, if no person has to decide which one."""
        best = best_of(versions)
        learners = {version.seems_of for version in versions if not version.is_ours}
        learners -= {""}
        is_tie = len({version.digest for version in best}) > 1
        if is_tie or len(learners) > 1:
            why = "are equally new" if is_tie else "may be of several learners"
            self.leave(
                [version.path for version in versions],
                f"{student}, {lesson}: {listed(best if is_tie else versions)} {why}: "
                "none of them was taken. Leave the one that counts.",
            )
        else:
            self.place(student, lesson, best[0], versions)

    def place(
        self, student: str, lesson: str, new: Version, versions: list[Version]
    ) -> None:
        """Writes the new file if there is none, or if it supersedes the one there.

        Raises:
            OSError: the file cannot be written.
        """
        who = f"{student}, {lesson}"
        path = self.course / "submitted" / student / lesson / f"{lesson}.ipynb"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            old = self.placed.get((student, lesson)) or self.on_disk(path, lesson)
        except (FileExistsError, NotADirectoryError, Unreadable):
            what = f"Something else is in the place of {path}. Remove it."
            self.leave([version.path for version in versions], f"{who}: {what}")
            return
        newest = new if old is None or new.supersedes(old) else old
        if newest.digest == new.digest:
            if old is None or old.digest != new.digest:
                write_file(path, new.file.read(), new.time)
            # Without its file, which keeps an archive in memory.
            placed = replace(newest, path=newest.path or new.path, file=None)
            self.placed[student, lesson] = placed
        if old and old.digest != new.digest:
            line = f"{new.name} is not newer than {old.name}, which counts."
            if newest is new or old.rank > new.rank:
                line = newest.why_not([new if newest is old else old])
            self.problems.append(f"{who}: {line}")
        by_rank: dict[tuple, list[Version]] = {}
        for version in versions:
            fate = Fate.OLDER if version.kind else Fate.NO_NOTEBOOK
            if version is new and newest.digest == new.digest:
                fate = Fate.COUNTS
            elif version.digest != new.digest and version.is_ours:
                fate = Fate.OURS
            elif version.digest != new.digest and version.kind > 1:
                by_rank.setdefault(version.rank, []).append(version)
            if (
                version.digest != newest.digest
                and version.kind > 1
                and not version.is_ours
            ):
                others = self.superseded.setdefault((student, lesson), [])
                others.append(replace(version, file=None))
            self.account.append((version.path, fate))
        for several in by_rank.values():
            self.problems.append(f"{who}: {new.why_not(several)}")

    def on_disk(self, path: Path, lesson: str) -> Version | None:
        """Describes the file that an earlier collection left; None: there is none.

        Raises:
            Unreadable: it is no regular file.
        """
        if not os.path.lexists(path):
            return None
        file = file_at(path)
        data = file.read()
        _, kind, is_ours = self.known(parse_submission(data).notebook, lesson)
        hashed = hashlib.sha256(data).hexdigest()
        return Version("", kind, file.time, hashed, is_ours=is_ours)

    def leave(self, names: Iterable[str], problem: str) -> None:
        """Leaves files for a person."""
        self.account += [(name, Fate.FOR_A_PERSON) for name in names]
        self.problems.append(problem)
        self.left.add(problem)


def in_repository(path: Sequence[str]) -> bool:
    return bool({"lessons", "solutions"} & {*path[:-1]})


def shown(file: ListedFile) -> str:
    return quoted(file.full_name, 300)
