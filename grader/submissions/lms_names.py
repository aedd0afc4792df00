"""Reads names: what an LMS, a learner or a browser wrote into a file's name.

Canvas, Moodle, Blackboard, Brightspace and Sakai write the learner into the paths of
what they let one download.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from grader.lessons.release import lesson_number

SAFE_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@-]{0,62}[A-Za-z0-9_@-])?")
SEPARATORS = re.compile(r"[ _-]*([ _-])")
COPY_OF = r"(?:(?:copy|kopi[ea]|copie|c[oó]pia)[ _](?:of|v[oa]n|d[ei]|av)[ _])"
AGAIN = r"[ _-]?\(\d+\)|[ _-]copy[ _]?\d*|-checkpoint"  # a learner may be kim-12
COPIED = re.compile(rf"(?i)^{COPY_OF}+|(?:{AGAIN})+$")
# A day alone may be a learner's number, as 20261104 is.
DATE = r"20\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
DAY = re.compile(rf"(?<!\d){DATE}(?!\d)")
STAMP = re.compile(rf"(?<!\d)(?:20\d\d-\d\d-\d\d|{DATE}[0-2]\d[0-5]\d[0-5]\d)(?!\d)")
# Paths below the folder of a whole class.
SCHEMES = {
    # Ada Lovelace_123_assignsubmission_file_/NAME, or ..._file_NAME in one flat folder.
    "Moodle": re.compile(
        r"(?s)(?P<name>[^/]+?)(?:_(?P<id>\d+))?_assignsubmission_(?P<kind>[a-z]+)"
        r"(?:_?/|_)(?P<file>.+)"
    ),
    # lovelaceada_LATE_123_4567_NAME; without names anon_aB3dE_4567_NAME.
    "Canvas": re.compile(
        r"(?s)(?:(?P<name>[^/]+?)_(?:LATE_|late_)?(?P<id>\d+)"
        r"|(?:LATE_|late_)?(?P<anonymous>anon_[A-Za-z0-9]+))_"
        r"(?:(?P<version>\d{3,})_(?P<file>.+)|(?:text|link)\.html)"
    ),
    # Lesson 1_alovelace_attempt_2026-03-28-09-00-00_NAME, and one .txt an attempt.
    "Blackboard": re.compile(
        r"(?s)(?P<assignment>[^/]+)_(?P<id>[^/_]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})"
        r"(?:_(?P<file>.+)|\.txt)"
    ),
    # 13394-80551 - Ada Lovelace - Mar 29, 2026 1205 PM/NAME, or ... PM - NAME.
    "Brightspace": re.compile(
        r"(?s)(?P<id>\d+)-\d+ - (?P<name>[^/]+?) - (?P<time>"
        r"(?:[A-Z][a-z]+ \d\d?|\d\d? [A-Z][a-z]+),? \d{4} \d\d?:?\d\d [AP]M)"
        r"(?:/| - )(?P<file>.+)"
    ),
    # Lovelace, Ada(alovelace)/Submission attachment(s)/NAME.
    "Sakai": re.compile(
        r"(?s)(?P<name>[^/()]+)\((?P<id>[^/()]+)\)[/_]Submission attachment\(s\)[/_]"
        r"(?P<file>.+)"
    ),
}
MOODLE_MARK = re.compile(r"(?:_(\d+))?_assignsubmission_")
# Numbers of work, as 101 and s1234567 are not: alone, and beside a word of work.
NUMBER = re.compile(r"\d\d?|[a-z]")
NUMBER_OF_WORK = re.compile(r"\d{1,4}|[a-z]\d?|\d[a-z]")
TIMES = "%Y-%m-%d-%H-%M-%S", "%b %d %Y %I%M %p", "%d %b %Y %I%M %p"
# A name that consists of these words alone is not a learner's.
WORK = frozenset(
    "section sections sec group groups team teams class classes course courses lesson "
    "lessons lecture notebook notebooks nb week weeks day part exercise exercises "
    "assignment assignments homework homeworks hw task lab labs problem set unit "
    "module chapter project submitted submission submissions submit upload uploads "
    "download downloads response responses file files attachment attachments hand in "
    "handin turned late early on time missing regrade final finished done draft drafts "
    "version versions ver try tries attempt attempts new newer newest last latest old "
    "older original copy copies kopie copie copia of von de backup temp tmp test my "
    "mine own work works working solved solution solutions answer answers complete "
    "corrected revised updated improved fixed edited resubmitted resubmission redo "
    "data dataset datasets figures images img plots src scripts results output outputs "
    "checkpoints logs korrigiert überarbeitet neu van kopia copie copia cópia "
    "completed unsolved untitled document notes scratch practice example examples v q "
    "ex distributed jax python jupyter colab ipynb zip first second third nd rd st th "
    "the and for ko en main master abgabe abgaben übung übungen kurs klasse gruppe "
    "archive archives all given plain export bulk gradebook repo repository student "
    "students drive canvas moodle blackboard brightspace ilias sakai github spring "
    "summer fall autumn winter semester term "
    "강 과제 실습 최종 제출 제출물 복사본 사본 의 무제 コピー のコピー 副本 的副本 "
    "수정 수업 분반 반 조 주차 답안 풀이".split()
)
# 강, 조 and 반 are family names, too, and 수정, a revision, is a given name.
KOREAN_NAME = re.compile("[강조반] 수정")


@dataclass(frozen=True)
class Owner:
    """The learner whose file it is.

    Attributes:
        student: the learner as the download names them: may be any text.
        name: the name to show, or "".
        path: what may name the lesson: the file's path below the learner, and the
            folders around both; () for what an LMS wrote itself.
        version: Canvas's number of the file, which grows; 0 elsewhere.
        time: when an LMS says that it was submitted; 0 elsewhere.
        from_lms: whether an LMS wrote the name, and not a person.
        origin: what an LMS writes alike into all names of a learner's files.
        below: the path below a folder that was taken for the learner's.
        is_guess: whether the learner is all that a file's name says.
    """

    student: str
    name: str = ""
    path: tuple[str, ...] = ()
    version: int = 0
    time: float = 0.0
    from_lms: bool = False
    origin: str = ""
    below: tuple[str, ...] = ()
    is_guess: bool = False

    @property
    def inside(self) -> tuple[str, ...]:
        """The path in what is the learner's own."""
        return self.below or (self.path if self.from_lms else self.path[-1:])


def owner_by(scheme: str, path: str) -> Owner | None:
    """Returns the learner whom an LMS named in a path; None: it named none."""
    found = SCHEMES[scheme].fullmatch(path)
    if not found:
        return None
    facts = {"name": "", "version": "0", "time": "", "file": "", "assignment": ""}
    facts |= {key: value for key, value in found.groupdict().items() if value}
    name, file = facts["name"], facts["file"]
    if scheme == "Canvas" and name.replace("_", "").isdigit():
        return None
    is_file = file and facts.get("kind", "file") == "file"
    return Owner(
        facts.get("anonymous") or facts.get("id") or name,
        name,
        tuple(f"{facts['assignment']}/{file}".strip("/").split("/")) if is_file else (),
        int(facts["version"][:18]),
        time_in(facts["time"]),
        from_lms=True,
        origin=name or facts["assignment"],
    )


def names_several(part: str) -> bool:
    """Tells whether a file's or folder's name names several learners as Moodle does.

    On many sites learners write their names, but only the LMS its mark.
    """
    marks = MOODLE_MARK.finditer(part)
    return len({mark[1] or part[: mark.start()] for mark in marks}) > 1


def time_in(text: str) -> float:
    """Reads when an LMS says that a file was submitted; 0 if it does not."""
    text = re.sub(r"([A-Z][a-z]{2})[a-z]*", r"\1", re.sub("[,:]", "", text))
    for form in TIMES:
        with contextlib.suppress(ValueError, OverflowError, OSError):
            return datetime.datetime.strptime(text, form).timestamp()
    return 0.0


def stem(name: str) -> str:
    """Returns a file's name without its ending, as before ".ipynb (1)"."""
    return re.sub(r"(?is)\.ipynb.*|\.[^.]*$", "", name)


def original(stem: str) -> str:
    """Returns a file's stem without time stamps, marks of a copy, double separators."""
    stem = STAMP.sub("", unicodedata.normalize("NFC", stem)).strip()
    return COPIED.sub("", SEPARATORS.sub(r"\1", stem).strip("_-"))


def fit(file: str, lesson: str) -> int:
    """Rates how well a file's name fits a lesson.

    Returns:
        3: it is the lesson's name; 2: it contains that; 1: it begins with the lesson's
        number; 0: none of these.
    """
    text = re.sub(r"[\s_-]+", "_", original(stem(file))).casefold()
    if text == lesson.casefold():
        return 3
    if re.search(rf"(?<![a-z0-9]){re.escape(lesson.casefold())}(?![a-z0-9])", text):
        return 2
    number = re.match(r"(?:lesson|notebook|nb)?_?0*(\d+)(?!\d)", text)
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


class LearnerNames:
    """Finds learners in the stems that people gave files, in a course's lessons."""

    def __init__(self, lessons: Sequence[str]):
        self.work = WORK | {word for lesson in lessons for word in words(lesson)}
        self.before, self.after, self.numbered = [], [], []
        for lesson in lessons:
            name = r"[ _-]+".join(map(re.escape, lesson.split("_")))
            before = rf"(?is)(.+?)[ _-]+{COPY_OF}*{name}(?![A-Za-z0-9]).*"
            after = rf"(?is)(?:{DATE}[ _-]+)?{name}(?:[ _-]?\(\d+\))?[ _-]+(.+)"
            number = lesson_number(lesson) or name
            self.before.append(re.compile(before))
            self.after.append(re.compile(after))
            self.numbered.append(re.compile(rf"(?is)(.+?)[ _-]+0*{number}"))

    def is_work(self, name: str) -> bool:
        """Tells whether a name is one of work, as "Section A1", "2nd try" and "01"."""
        return bool(words_and_numbers(name)) and not self.without_work(name)

    def without_work(self, name: str) -> str:
        """Returns what may name a learner in a name: "ada" of "ada's 2nd try"."""
        parts = words_and_numbers(name)
        if KOREAN_NAME.fullmatch(" ".join(parts)):
            return " ".join(parts)
        number = NUMBER_OF_WORK if any(map(self.names_work, parts)) else NUMBER
        of_work = [p for p in parts if self.names_work(p) or number.fullmatch(p)]
        return " ".join(part for part in parts if part not in of_work)

    def names_work(self, part: str) -> bool:
        return bool(words(part)) and self.work.issuperset(words(part))

    def beside_lesson(self, stem: str) -> str:
        """Returns the learner in `ada_01_tiny (1)` or `01_tiny_ada`, else ""."""
        return self.first_learner(stem, [*self.before, *self.after])

    def before_work(self, stem: str) -> str:
        """Returns the learner in `ada_01_tiny` or `ada_1`, else ""."""
        return self.first_learner(stem, [*self.before, *self.numbered])

    def after_lesson(self, stem: str) -> str:
        """Returns the learner in `01_tiny_ada`, else ""."""
        return self.first_learner(stem, self.after)

    def alone(self, stem: str) -> str:
        """Returns the learner in `ada`, else ""."""
        return self.first_learner(stem, [re.compile("(?s)(.+)")])

    def first_learner(self, stem: str, patterns: Sequence[re.Pattern]) -> str:
        stem = original(stem)
        found = (pattern.fullmatch(stem) for pattern in patterns)
        learners = (match[1].strip(" _-") for match in found if match)
        return next((one for one in learners if one and not self.is_work(one)), "")


def plain(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def words_and_numbers(name: str) -> list[str]:
    return [part for part in re.split(r"[\W_]+", plain(name)) if part]


def words(name: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", plain(name))


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
