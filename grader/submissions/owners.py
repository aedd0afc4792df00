"""Decides whose each file of a download is, by its path alone.

A path begins below the download and ends with a file; a learner's own archive is a
file, and nothing in it has a say. A name that an LMS wrote counts first, then the first
folder that is not one of work; where files are in none, their own names.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence

from grader.submissions.lms_names import (
    DAY,
    SCHEMES,
    LearnerNames,
    Owner,
    names_several,
    owner_by,
    plain,
    stem,
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
        named = [
            owner
            for number, owner in search.found.items()
            if owner.from_lms or owner.below or is_candidate(paths[number])
        ]
        is_own = all(owner.below or owner.is_guess for owner in named)
        is_own = is_own and len({owner.student for owner in named}) < 2
        if may_be_one and learner and is_own and not search.refused:
            search.give_folder(numbered, learner)
    return [None if n in search.refused else search.found.get(n) for n in numbered]


def is_candidate(path: Sequence[str]) -> bool:
    """Tells whether a file may be a submission: only these show whose a folder is."""
    name = path[-1].lower()
    return ".ipynb" in name or name.endswith(".zip")


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

    In Canvas's names a section or a year may be taken for a learner's id. Such an id
    has several names, or several files of one name, which Canvas tells apart.
    """
    found = {}
    for scheme in SCHEMES:
        owned = {n: owner_by(scheme, "/".join(path)) for n, path in paths.items()}
        owned = {number: owner for number, owner in owned.items() if owner}
        names = {(owner.student, owner.name) for owner in owned.values()}
        files = collections.Counter((o.student, o.path) for o in owned.values())
        same = {student for student, path in files if path and files[student, path] > 1}
        is_id = len(names) == len(dict(names)) > 2 * len(same)
        found[scheme] = owned if is_id or scheme != "Canvas" else {}
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
        self.names = LearnerNames(lessons)
        self.found: dict[int, Owner] = {}
        self.refused: set[int] = set()

    def read_class(
        self, paths: Paths, above: tuple[str, ...], *, is_sole: bool
    ) -> None:
        """Finds the owners of what is in a folder of several learners.

        `above` are the folders around it; `is_sole` tells that nothing is beside them.
        """
        if len(above) > MAX_DEPTH:
            return
        paths = self.without_lms(paths)
        files = {n: path[0] for n, path in paths.items() if len(path) == 1}
        folders = collections.defaultdict(dict)
        for number, path in paths.items():
            if len(path) > 1:
                folders[path[0]][number] = path[1:]
        self.read_names(files, above)
        is_sole = is_sole and len(folders) == 1
        is_sole = is_sole and not any(is_candidate([name]) for name in files.values())
        are_groups = self.are_groups(folders, is_sole)
        for folder, below in folders.items():
            if are_groups or self.names.is_work(folder):
                self.read_class(below, (*above, folder), is_sole=is_sole)
            else:
                learner = self.names.beside_lesson(folder) or folder
                self.give_folder(below, learner, (*above, folder))

    def read_names(self, files: Mapping[int, str], above: tuple[str, ...]) -> None:
        """Finds learners in the names of files side by side.

        They are taken from before or after the lesson, wherever more learners are
        found. A date is no learner, unless another name is a number but no date.
        """
        stems = {number: stem(name) for number, name in files.items()}
        found = [
            {n: who for n, name in stems.items() if (who := scheme(name))}
            for scheme in (self.names.before_work, self.names.after_lesson)
        ]
        named = max(found, key=lambda one: len({*filter(is_no_day, one.values())}))
        known = {*named.values()}
        for one in found:
            named |= {n: who for n, who in one.items() if who in known}
        guesses = {
            number: self.names.alone(stems[number])
            for number, name in files.items()
            if is_candidate([name]) and not self.names.beside_lesson(stems[number])
            if name.lower().endswith(".zip") or not named
        }
        learners = {n: who for n, who in (guesses | named).items() if who}
        has_numbers = any(who.isdigit() and is_no_day(who) for who in learners.values())
        for number, learner in learners.items():
            if not (has_numbers or is_no_day(learner)):
                continue
            rest = files[number].replace(learner, "", 1).lstrip(" _-")
            is_guess = number not in named
            owner = Owner(learner, path=(*above, rest), is_guess=is_guess)
            self.found[number] = owner

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

    def are_groups(self, folders: Mapping[str, Paths], is_sole: bool) -> bool:
        """Tells whether folders hold several learners, rather than belong to one each.

        Side by side they are, if each file names a learner beside its lesson, and there
        are more of these than folders. Of one alone the folders in it count as well.
        """
        own = {f: below for f, below in folders.items() if not self.names.is_work(f)}
        if any(is_repository(below.values()) for below in own.values()):
            return False
        if is_sole and any(map(is_of_class, own.values())):
            return True
        inner, named = set(), set()
        for folder, below in own.items():
            for *around, file in filter(is_candidate, below.values()):
                learner = self.names.beside_lesson(stem(file))
                if not is_sole and (around or not learner or is_same(learner, folder)):
                    return False
                if around := [name for name in around if not self.names.is_work(name)]:
                    inner.add(around[0])
                else:
                    named.add(plain(learner or self.names.alone(stem(file))))
        return max(len(inner), len(named - {""})) > len(own)

    def give_folder(
        self, paths: Paths, learner: str, above: tuple[str, ...] = ()
    ) -> None:
        for number, path in paths.items():
            self.found[number] = Owner(learner, path=(*above, *path), below=path)


def is_of_class(paths: Paths) -> bool:
    """Tells whether an LMS or nbgrader put together what is in a folder."""
    return bool(scheme_of(paths)) or any(p[0] == "submitted" for p in paths.values())


def is_no_day(name: str) -> bool:
    return not DAY.fullmatch(name)


def is_same(name: str, other: str) -> bool:
    """Tells whether two names seem to be one learner's, as ada's in Lovelace_Ada_12."""
    name, other = plain(name), plain(other)
    pairs = [(word, other) for word in words(name)]
    pairs += [(word, name) for word in words(other)]
    return name == other or any(len(word) > 2 and word in text for word, text in pairs)
