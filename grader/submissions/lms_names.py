"""Reads file names: whose a file is, and which lesson it answers.

Canvas and Moodle write the learner into the names of what they let one download.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from grader.authoring.release import lesson_number

SAFE_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@-]{0,62}[A-Za-z0-9_@-])?")
SEPARATORS = re.compile(r"[ _-]*([ _-])")
COPIED = re.compile(
    r"(?i)^(?:(?:copy|kopie|copie|copia)[ _](?:of|von|de)[ _])+"
    r"|(?:[ _-]?\((\d+)\)|[ _-]copy[ _]?(\d*)|-checkpoint|-(\d+))+$"
)
# Ada Lovelace_123_assignsubmission_file/..., or ..._file_NAME in one flat folder.
MOODLE = re.compile(
    r"(?s)(?P<name>.+?)(?:_(?P<id>\d+))?_assignsubmission_(?P<kind>[a-z]+)"
    r"(?:_(?P<file>.*))?"
)
MOODLE_MARK = re.compile(r"(?:_(\d+))?_assignsubmission_")
# lovelaceada_LATE_123_4567_NAME; without names anon_aB3dE_4567_NAME; ..._text.html.
CANVAS = re.compile(
    r"(?s)(?:(?P<name>.+?)_)??(?:LATE_|late_)?(?P<id>\d+|anon_[A-Za-z0-9]+)_"
    r"(?:(?P<version>\d{3,})_(?P<file>.+)|(?:text|link)\.html)"
)


@dataclass(frozen=True)
class Owner:
    """The learner whose file it is.

    Attributes:
        student: the learner as the download names them: may be any text.
        name: the name to show, or "".
        path: the file's path below the learner; () for what an LMS wrote itself.
        version: Canvas's number of the file, which grows; 0 elsewhere.
        from_lms: whether an LMS wrote the name, and not a person.
    """

    student: str
    name: str
    path: tuple[str, ...]
    version: int = 0
    from_lms: bool = False


def stem_of(file: str) -> str:
    """Returns a file's name without its ending and with single separators."""
    stem = unicodedata.normalize("NFC", PurePosixPath(file).stem).strip()
    return SEPARATORS.sub(r"\1", stem)


def original_stem(file: str) -> str:
    """Returns a file's stem without the marks of a copy."""
    stem = stem_of(file)
    return COPIED.sub("", stem) or stem


def copy_number(file: str) -> int:
    """Returns the number that browsers and Canvas give to a second file: (1), -2."""
    found = COPIED.finditer(stem_of(file))
    numbers = [number for match in found for number in match.groups() if number]
    return int(numbers[-1][:9]) if numbers else 0


def fit(file: str, lesson: str) -> int:
    """Rates how well a file's name fits a lesson.

    Returns:
        3: it is the lesson's name; 2: it contains that; 1: it begins with the lesson's
        number; 0: none of these.
    """
    stem = re.sub(r"[\s_-]+", "_", original_stem(file)).casefold()
    if stem == lesson.casefold():
        return 3
    if re.search(rf"(?<![a-z0-9]){re.escape(lesson.casefold())}(?![a-z0-9])", stem):
        return 2
    number = re.match(r"(?:lesson|notebook|nb)?_?0*(\d+)(?!\d)", stem)
    return int(bool(number) and number[1] == str(lesson_number(lesson)))


def lesson_named(path: Sequence[str], lessons: Sequence[str]) -> str:
    """Names the lesson that a file's path names, or ""."""
    folder = next((name for name in path[:-1] if name in lessons), "")
    if folder:
        return folder
    for name in reversed(path):
        rated = {lesson: fit(name, lesson) for lesson in lessons}
        best = [lesson for lesson in rated if rated[lesson] == max(rated.values())]
        if len(best) == 1 and rated[best[0]]:
            return best[0]
    return ""


def owner_of(parts: Sequence[str], lessons: Sequence[str]) -> Owner | None:
    """Returns whose file is at a path in a download; None: the path does not say."""
    for place, part in enumerate(parts):
        if found := MOODLE.fullmatch(part):
            # On many sites learners write their names, but only the LMS its mark.
            marks = MOODLE_MARK.finditer(part)
            if len({mark[1] or part[: mark.start()] for mark in marks}) > 1:
                return None
            student, version = found["id"] or found["name"], 0
        elif found := CANVAS.fullmatch(part):
            student, version = found["id"], int((found["version"] or "0")[:18])
        else:
            continue
        path = tuple(parts[place + 1 :])
        if found["file"]:
            path = (found["file"], *path)
        if found.groupdict().get("kind", "file") != "file":  # what Moodle wrote itself
            path = ()
        return Owner(student, found["name"] or "", path, version, from_lms=True)
    return plain_owner(parts, lessons)


def plain_owner(parts: Sequence[str], lessons: Sequence[str]) -> Owner | None:
    """Returns whose a file is in folders that people made.

    `submitted/ada/01_x/01_x.ipynb`, `ada/01_x.ipynb`, `ada.zip/01_x.ipynb` or
    `ada_01_x.ipynb`.
    """
    folders = [re.sub(r"(?i)\.zip$", "", folder) for folder in parts[:-1]]
    file = parts[-1]
    if len(folders) >= 2 and folders[-1] in lessons:
        return Owner(folders[-2], "", (folders[-1], file))
    named = [name for name in folders if name not in lessons and name != "submitted"]
    if not named:
        student = learner_in(PurePosixPath(file).stem, lessons)
        rest = file.removeprefix(student).lstrip(" _-")
        return Owner(student, "", (*folders, rest)) if student else None
    below = (*folders[folders.index(named[0]) + 1 :], file)
    student = learner_in(named[0], lessons)
    if not student:
        return Owner(named[0], "", below)
    return Owner(student, "", (named[0].removeprefix(student).lstrip(" _-"), *below))


def learner_in(stem: str, lessons: Sequence[str]) -> str:
    """Returns the learner in a name like `ada_01_pmap_spmd (1)` or `ada_1`, or ""."""
    stem = original_stem(stem + ".ipynb")
    for lesson in lessons:
        name = re.escape(lesson)
        number = lesson_number(lesson) or name
        pattern = rf"(?is)(.+?)[ _-]+(?:{name}(?![A-Za-z0-9]).*|0*{number})"
        if found := re.fullmatch(pattern, stem):
            return found[1]
    return ""


def num_wrappers(paths: Sequence[Sequence[str]], lessons: Sequence[str]) -> int:
    """Counts the folders around a whole class, which name no learner."""
    rest = [tuple(p) for p in paths if len(p) < 2 or p[-2] not in lessons]
    count = 0
    while rest and len({p[0] for p in rest}) == 1 and all(len(p) > 1 for p in rest):
        folders = {p[1] for p in rest if len(p) > 2}
        names_learners = all(
            len(p) > 2 or learner_in(PurePosixPath(p[1]).stem, lessons) for p in rest
        )
        of_lms = any(pattern.fullmatch(rest[0][0]) for pattern in (MOODLE, CANVAS))
        if of_lms or (len(folders) < 2 and not names_learners):
            break
        rest, count = [p[1:] for p in rest], count + 1
    return count


def safe_id(student: str) -> str:
    """Returns a learner's id unchanged if it is safe as a folder, else a stable one.

    The same text gives the same id, however its accents are encoded.
    """
    if SAFE_ID.fullmatch(student):
        return student
    text = unicodedata.normalize("NFC", student).encode("utf-8", "surrogatepass")
    plain = unicodedata.normalize("NFKD", student).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:40] or "student"
    return f"{slug}-{hashlib.sha256(text).hexdigest()[:8]}"
