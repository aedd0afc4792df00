"""Reads file names: which lesson a file answers, and whose it is.

Canvas and Moodle write the learner into the names of what they let one download.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import unicodedata
from collections.abc import Sequence
from pathlib import PurePosixPath

from grader.authoring.release import lesson_number
from grader.submissions.clean_text import clean_line

SAFE_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@-]{0,62}[A-Za-z0-9_@-])?")
RESERVED = re.compile(r"(?i)(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")  # by Windows
RUN = re.compile(r"[ _-]*([ _-])")
COPIED = re.compile(
    r"(?i)^(?:(?:copy|kopie|copie|copia)[ _](?:of|von|de)[ _])+"
    r"|(?:[ _-]?\((\d+)\)|[ _-]copy[ _]?(\d*)|-checkpoint|-(\d+))+$"
)
# Ada Lovelace_123_assignsubmission_file/..., or ..._file_NAME in one flat folder.
MOODLE = re.compile(
    r"(?s)(?P<name>.+?)(?:_(?P<id>\d+))?_assignsubmission_(?P<kind>[a-z]+)"
    r"(?:_(?P<file>.*))?"
)
MARK = re.compile(r"(?:_(\d+))?_assignsubmission_")  # which a Moodle name may hold, too
# lovelaceada_LATE_123_4567_NAME; without names anon_aB3dE_4567_NAME; ..._text.html.
CANVAS = re.compile(
    r"(?s)(?:(?P<name>.+?)_)??(?:LATE_|late_)?(?P<id>\d+|anon_[A-Za-z0-9]+)_"
    r"(?:(?P<version>\d{3,})_(?P<file>.+)|(?:text|link)\.html)"
)


@dataclasses.dataclass(frozen=True)
class Owner:
    """Whose a file is.

    Attributes:
        student: the learner as the download names them: may be any text.
        name: the name to show, or "".
        names: the path that the learner gave the file; () where it is none of theirs.
        version: Canvas's number of the file, which grows; 0 elsewhere.
        from_lms: whether an LMS wrote the name, and not a person.
    """

    student: str
    name: str
    names: tuple[str, ...]
    version: int = 0
    from_lms: bool = False


class Ambiguous(Exception):
    """A file name that says of several learners that the file is theirs."""


def shown(name: str, limit: int = 80) -> str:
    """Writes an untrusted file name for a message: quoted, visible and short."""
    return f'"{clean_line(name, limit)}"'


def whole_stem(file: str) -> str:
    """Returns a file's name without its ending and with single separators."""
    stem = unicodedata.normalize("NFC", PurePosixPath(file).stem).strip()
    return RUN.sub(r"\1", stem)


def stem_of(file: str) -> str:
    """Returns a file's name without its ending and the marks of a copy."""
    stem = whole_stem(file)
    return COPIED.sub("", stem) or stem


def copy_number(file: str) -> int:
    """Returns the number that browsers and Canvas give to a second file: (1), -2."""
    found = COPIED.finditer(whole_stem(file))
    numbers = [number for match in found for number in match.groups() if number]
    return int(numbers[-1][:9]) if numbers else 0


def fit(file: str, lesson: str) -> int:
    """Rates how well a file's name fits a lesson: 3 the same, 2, 1, 0 not at all."""
    stem = re.sub(r"[\s_-]+", "_", stem_of(file)).casefold()
    if stem == lesson.casefold():
        return 3
    if re.search(rf"(?<![a-z0-9]){re.escape(lesson.casefold())}(?![a-z0-9])", stem):
        return 2
    number = re.match(r"(?:lesson|notebook|nb)?_?0*(\d+)(?!\d)", stem)
    return int(bool(number) and number[1] == str(lesson_number(lesson)))


def lesson_named(names: Sequence[str], lessons: Sequence[str]) -> str:
    """Names the lesson that a file answers, by its path; "" where that does not say."""
    folder = next((name for name in names[:-1] if name in lessons), "")
    if folder:
        return folder
    for name in reversed(names):
        rated = sorted(
            ((fit(name, lesson), lesson) for lesson in lessons), reverse=True
        )
        if rated and rated[0][0] and (len(rated) == 1 or rated[0][0] > rated[1][0]):
            return rated[0][1]
    return ""


def owner_of(parts: Sequence[str], lessons: Sequence[str]) -> Owner | None:
    """Tells whose the file at a path in a download is; None: its path does not say.

    Raises:
        Ambiguous: it says so of several learners.
    """
    for place, part in enumerate(parts):
        rest = tuple(parts[place + 1 :])
        if found := MOODLE.fullmatch(part):
            # On many sites learners write their names: only the LMS writes its mark.
            marks = MARK.finditer(part)
            if len({mark[1] or part[: mark.start()] for mark in marks}) > 1:
                raise Ambiguous("holds Moodle's mark of several learners")
            names = ((found["file"],) if found["file"] else ()) + rest
            names = names if found["kind"] == "file" else ()
            student = found["id"] or found["name"]
            return Owner(student, found["name"], names, from_lms=True)
        if found := CANVAS.fullmatch(part):
            names = ((found["file"],) if found["file"] else ()) + rest
            version = int((found["version"] or "0")[:18])
            return Owner(found["id"], found["name"] or "", names, version, True)
    return plain_owner(parts, lessons)


def plain_owner(parts: Sequence[str], lessons: Sequence[str]) -> Owner | None:
    """Tells whose a file is in folders that people made.

    `submitted/ada/01_x/01_x.ipynb`, `ada/01_x.ipynb`, `ada.zip/01_x.ipynb` or
    `ada_01_x.ipynb`.
    """
    folders = [re.sub(r"(?i)\.zip$", "", folder) for folder in parts[:-1]]
    file = parts[-1]
    if len(folders) >= 2 and folders[-1] in lessons:
        return Owner(folders[-2], "", (folders[-1], file))
    own = [name for name in folders if name not in lessons and name != "submitted"]
    named = own[0] if own else PurePosixPath(file).stem
    student = learner_in(named, lessons)
    if not own:
        rest = file.removeprefix(student).lstrip(" _-")
        return Owner(student, "", (*folders, rest)) if student else None
    below = (*folders[folders.index(named) + 1 :], file)
    rest = named.removeprefix(student).lstrip(" _-")
    return Owner(student or named, "", (rest, *below) if student else below)


def learner_in(stem: str, lessons: Sequence[str]) -> str:
    """Takes the learner out of a name like `ada_01_pmap_spmd (1)` or `ada_1`; or ""."""
    stem = stem_of(stem + ".ipynb")
    for lesson in lessons:
        name = re.escape(lesson)
        number = lesson_number(lesson) or name
        pattern = rf"(?is)(.+?)[ _-]+(?:{name}(?![A-Za-z0-9]).*|0*{number})"
        if found := re.fullmatch(pattern, stem):
            return found[1]
    return ""


def wrappers(paths: Sequence[Sequence[str]], lessons: Sequence[str]) -> int:
    """Counts the folders around a whole class, which are no learner's."""
    rest = [tuple(p) for p in paths if len(p) < 2 or p[-2] not in lessons]
    count = 0
    while rest and len({p[0] for p in rest}) == 1 and all(len(p) > 1 for p in rest):
        folders = {p[1] for p in rest if len(p) > 2}
        deeper = all(
            len(p) > 2 or learner_in(PurePosixPath(p[1]).stem, lessons) for p in rest
        )
        of_lms = any(pattern.fullmatch(rest[0][0]) for pattern in (MOODLE, CANVAS))
        if of_lms or (len(folders) < 2 and not deeper):
            break
        rest, count = [p[1:] for p in rest], count + 1
    return count


def safe_id(student: str) -> str:
    """Returns a learner's id as it is where it is safe as a folder, else a stable one.

    The same text gives the same id, however its accents are encoded.
    """
    if SAFE_ID.fullmatch(student) and not RESERVED.fullmatch(student):
        return student
    text = unicodedata.normalize("NFC", student).encode("utf-8", "surrogatepass")
    plain = unicodedata.normalize("NFKD", student).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:40] or "student"
    return f"{slug}-{hashlib.sha256(text).hexdigest()[:8]}"
