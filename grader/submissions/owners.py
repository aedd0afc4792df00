"""Decides whose each file of a download is, by its path alone.

A path begins below the download and ends with a file; a learner's own archive is a
file, and nothing in it has a say. A name that an LMS wrote counts first, then a file's
name that names its learner, then the first folder that is not one of work.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from grader.submissions.lms_names import (
    SCHEMES,
    LearnerNames,
    Owner,
    names_several,
    owner_by,
    plain,
    words,
)

MAX_DEPTH = 20  # of folders around learners
Paths = dict[int, tuple[str, ...]]  # by a file's number


def owners(
    paths: Sequence[tuple[str, ...]],
    lessons: Sequence[str],
    name: str = "",
    may_be_one: bool = False,
) -> list[Owner | None]:
    """Returns whose each file is; None: its path does not say, or says two things.

    `name` is that of the download: a learner's if this is a copy of the course, or if
    it `may_be_one` learner's and holds no more than one folder that may be another's.
    """
    search = Search(lessons)
    numbered = dict(enumerate(paths))
    learner = search.names.beside_lesson(name) or search.names.alone(name)
    if learner and is_repository(paths):
        search.give_folder(numbered, learner)
    else:
        search.read_class(numbered, (), is_sole=True)
        search.refuse_changes()
        named = [
            owner
            for number, owner in search.found.items()
            if owner.from_lms or is_candidate(paths[number])
        ]
        is_own = all(owner.below or owner.is_guess for owner in named)
        is_own = is_own and len({owner.student for owner in named}) < 2
        if may_be_one and learner and is_own and not search.refused:
            search.give_folder(numbered, learner)
    return [None if n in search.refused else search.found.get(n) for n in numbered]


def is_candidate(path: Sequence[str]) -> bool:
    """Tells whether a file may be a submission: no other says whose folder it is in."""
    return path[-1].lower().endswith((".ipynb", ".zip"))


def is_repository(paths: Iterable[tuple[str, ...]]) -> bool:
    """Tells whether these are the files of a copy of the course's repository."""
    return {"lessons", "solutions"} <= {path[0] for path in paths if len(path) > 1}


def scheme_of(paths: Paths) -> str:
    """Names the LMS whose scheme most of the files follow, or ""."""
    for scheme, owned in followers(paths).items():
        strangers = [p for n, p in paths.items() if n not in owned and is_candidate(p)]
        if len(owned) > len(strangers):
            return scheme
    return ""


def followers(paths: Paths) -> dict[str, dict[int, Owner]]:
    """Finds the files that follow each LMS's scheme.

    In Canvas's names a section or a year may be taken for a learner's id: an id with
    several names is none.
    """
    found = {}
    for scheme in SCHEMES:
        owned = {n: owner_by(scheme, "/".join(path)) for n, path in paths.items()}
        owned = {number: owner for number, owner in owned.items() if owner}
        names = {(owner.student, owner.name) for owner in owned.values()}
        is_id = scheme != "Canvas" or len(names) == len({who for who, _ in names})
        found[scheme] = owned if is_id else {}
    return found


def named_learners(
    paths: Iterable[tuple[str, ...]], lessons: Sequence[str]
) -> set[str]:
    """Returns the learners whom an LMS, or a file's name beside its lesson, names."""
    names, found = LearnerNames(lessons), set()
    for path in filter(is_candidate, paths):
        by_lms = (owner_by(scheme, "/".join(path)) for scheme in SCHEMES)
        owner = next(filter(None, by_lms), None)
        found.add(owner.student if owner else names.beside_lesson(stem(path[-1])))
    return found - {""}


class Search:
    """Finds the owners of a download's files.

    Attributes:
        found: owners, by the file's number.
        refused: numbers of files that seem to be two learners'.
    """

    def __init__(self, lessons: Sequence[str]):
        self.lessons = lessons
        self.names = LearnerNames(lessons)
        self.found: dict[int, Owner] = {}
        self.refused: set[int] = set()
        self.folders: set[str] = set()  # which are learners'
        self.overruled: dict[int, tuple[str, int]] = {}

    def read_class(
        self,
        paths: Paths,
        above: tuple[str, ...],
        *,
        is_sole: bool,
        overruled: tuple[str, int] = ("", 0),
    ) -> None:
        """Finds the owners of what is in a folder of several learners.

        `above` are the folders around it; `overruled` is one that might be a learner's,
        and the number of others whom files in it name.
        """
        if len(above) > MAX_DEPTH:
            return
        paths = self.without_lms(paths)
        files = {n: path[0] for n, path in paths.items() if len(path) == 1}
        folders = collections.defaultdict(dict)
        for number, path in paths.items():
            if len(path) > 1:
                folders[path[0]][number] = path[1:]
        named = {n: self.names.beside_work(stem(name)) for n, name in files.items()}
        for number, name in files.items():
            guess = ""
            if name.lower().endswith(".zip") or not any(named.values()):
                guess = self.names.alone(stem(name)) if is_candidate([name]) else ""
            if learner := named[number] or guess:
                rest = name.replace(learner, "", 1).lstrip(" _-")
                path = (*above, rest)
                owner = Owner(learner, path=path, is_guess=not named[number])
                self.found[number] = owner
                self.overruled[number] = overruled
        is_sole = is_sole and len(folders) == 1
        is_sole = is_sole and not any(is_candidate([name]) for name in files.values())
        for folder, below in folders.items():
            others = self.other_learners(folder, below)
            if others or self.is_around_learners(folder, below, is_sole):
                if others and not self.names.is_work(folder):
                    inside = folder.casefold(), len(others)
                else:
                    inside = overruled
                self.read_class(
                    below, (*above, folder), is_sole=is_sole, overruled=inside
                )
            else:
                learner = self.names.beside_lesson(folder) or folder
                self.give_folder(below, learner, (*above, folder))

    def without_lms(self, paths: Paths) -> Paths:
        """Finds the owners whom an LMS named; returns what it did not name."""
        scheme, found = scheme_of(paths), followers(paths)
        owned = found.get(scheme, {})
        self.found |= owned
        origins = collections.defaultdict(set)
        for number, owner in owned.items():
            if not names_several(paths[number][0]):
                origins[owner.student].add(owner.origin)
        rest = {}
        for number, path in paths.items():
            if owner := owned.get(number):
                is_clear = len(origins[owner.student]) == 1
                is_clear = is_clear and not names_several(path[0])
            else:  # a learner may imitate an LMS
                is_clear = not any(number in one for one in found.values())
            if not is_clear:
                self.refused.add(number)
            elif not owner and (not scheme or is_candidate(path)):
                rest[number] = path  # an LMS adds lists and texts
        return rest

    def other_learners(self, folder: str, below: Paths) -> set[str]:
        """Finds learners whom files name, where the folder seems to be another's.

        nbgrader's folders, `ada/01_tiny/`, are their learner's whatever a file's name.
        """
        if is_repository(below.values()):
            return set()
        candidates = filter(is_candidate, below.values())
        found = {plain(self.names.beside_lesson(stem(path[-1]))) for path in candidates}
        found = {name for name in found if name and not is_same(name, folder)}
        of_nbgrader = all(path[0] in self.lessons for path in below.values())
        return found if len(found) > of_nbgrader else set()

    def is_around_learners(self, folder: str, below: Paths, is_sole: bool) -> bool:
        """Tells whether a folder is of work, or the only one, around several learners.

        Nothing in a learner's folder can make it one of these, if others are beside it.
        """
        if self.names.is_work(folder):
            return True
        if is_repository(below.values()):
            return False
        learners, alone = set(), set()
        for path in filter(is_candidate, below.values()):
            around = [name for name in path[:-1] if not self.names.is_work(name)]
            name = stem(path[-1])
            learners.update(around[:1])
            if not around:
                alone.add(self.names.alone(name) or self.names.beside_work(name))
        several = max(len(learners), len(alone - {""})) > 1
        is_submitted = any(path[0] == "submitted" for path in below.values())
        return is_sole and (several or is_submitted or bool(scheme_of(below)))

    def give_folder(
        self, paths: Paths, learner: str, above: tuple[str, ...] = ()
    ) -> None:
        self.folders.add(learner.casefold())
        for number, path in paths.items():
            self.found[number] = Owner(learner, path=(*above, *path), below=path)

    def refuse_changes(self) -> None:
        """Refuses files named after one learner in a folder that may be another's."""
        learners = {owner.student.casefold() for owner in self.found.values()}
        for number, (folder, num_others) in self.overruled.items():
            student = self.found[number].student.casefold()
            is_learners = folder in learners or student in self.folders
            if folder and (is_learners or (num_others == 1 and self.folders)):
                self.refused.add(number)


def is_same(name: str, other: str) -> bool:
    """Tells whether two names seem to be one learner's, as ada's in Lovelace_Ada_12."""
    name, other = plain(name), plain(other)
    pairs = [(word, other) for word in words(name)]
    pairs += [(word, name) for word in words(other)]
    return name == other or any(len(word) > 2 and word in text for word, text in pairs)


def stem(name: str) -> str:
    """Returns a file's name without its ending."""
    return PurePosixPath(name).stem
