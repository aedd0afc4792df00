"""Lists the files of a download: a folder, a zip archive, archives in an archive.

No link is followed, nothing is unpacked by the name that an archive gives it, and what
comes out of an archive is limited.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import io
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

MAX_FILE = 256 << 20  # bytes of one file
MAX_INNER = 1 << 30  # bytes that are read from one learner's archive
MAX_TOTAL = 16 << 30  # bytes that are read from an LMS's archive
MAX_ENTRIES = 20_000  # of one archive
MAX_NAME = 1000  # characters of a path in an archive
# What operating systems, Jupyter, nbgrader and the course put beside a learner's files.
IGNORED = {"__MACOSX", ".DS_Store", ".ipynb_checkpoints", "Thumbs.db", "desktop.ini"}
IGNORED |= {"timestamp.txt", "coursekit", ".git", ".github", "__pycache__", ".venv"}
IGNORED |= {"node_modules", "site-packages", ".pytest_cache"}
BOX_LETTERS = re.compile("[\u2500-\u259f]")  # in no name that anybody types
KINDS = {
    stat.S_IFREG: "",
    stat.S_IFLNK: "is a link",
    stat.S_IFDIR: "is a folder",
    stat.S_IFIFO: "is a named pipe",
}


class Unreadable(Exception):
    """Why a file cannot be read: what follows its name, as in "is a link"."""


class TooLarge(Unreadable):
    """A file, or what comes out of an archive, is over its limit."""


@dataclass(frozen=True)
class ListedFile:
    """A file on the disk or in an archive, which has not been read yet.

    Attributes:
        parts: its path, which begins with the download; an archive is a folder of it.
        time: when it was last changed, in seconds since 1970; 0 if that is unknown.
        problem: why it cannot be read, or "".
        path: where it is on the disk; None for a file in an archive.
        inner: its path in its learner's own archive; () outside of one.
        inner_time: when it was changed, as that archive says.
    """

    parts: tuple[str, ...]
    time: float
    _read: Callable[[int], bytes]
    problem: str = ""
    path: Path | None = None
    inner: tuple[str, ...] = ()
    inner_time: float = 0.0

    @property
    def full_name(self) -> str:
        return "/".join(self.parts)

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def is_notebook(self) -> bool:
        """Whether its name says so: browsers and copies add to the ending."""
        return ".ipynb" in self.name.lower()

    @property
    def is_text(self) -> bool:
        """Whether it may hold a notebook that was saved under another name."""
        return bool(re.fullmatch(r"(?is)[^.]*|.+\.(?:txt|json)", self.name))

    @property
    def is_archive(self) -> bool:
        return self.name.lower().endswith(".zip")

    def read(self, limit: int | None = None) -> bytes:
        """Returns its bytes.

        Raises:
            Unreadable: it is no regular file, damaged, or has more bytes than `limit`
                (by default `MAX_FILE`).
            OSError: this machine cannot read it, which is not the learner's fault.
        """
        if self.problem:
            raise Unreadable(self.problem)
        return self._read(limit or MAX_FILE)


def file_at(path: Path, folders: tuple[str, ...] = ()) -> ListedFile:
    """Describes a file on the disk, which is not opened yet."""
    facts = os.lstat(path)

    def read(limit: int) -> bytes:
        refuse_size(facts.st_size, limit)
        return path.read_bytes()

    parts, problem = (*folders, path.name), problem_of_kind(facts.st_mode)
    return ListedFile(parts, facts.st_mtime, read, problem, path)


def problem_of_kind(mode: int) -> str:
    return KINDS.get(stat.S_IFMT(mode), "is not a regular file")


def refuse_size(num_bytes: int, limit: int) -> None:
    if num_bytes > limit:
        raise TooLarge(f"has {-(-num_bytes >> 20)} MB; the limit is {limit >> 20} MB")


def is_ignored(parts: Sequence[str]) -> bool:
    """Tells whether no learner made the file at a path."""
    return bool(IGNORED & set(parts)) or parts[-1].startswith("._")


class Archive:
    """A zip archive, from which only a limited number of bytes is read.

    Raises:
        Unreadable: it is no zip archive, damaged, or has too many files.
    """

    def __init__(self, source: BinaryIO | bytes, max_bytes: int):
        self.left = max_bytes
        if isinstance(source, bytes):
            # zipfile needs memory for each entry before it can be asked for the number.
            refuse_entries(source.count(b"PK\x01\x02"))
            source = io.BytesIO(source)
        try:
            self.zip = zipfile.ZipFile(source)
        except Exception as error:  # zipfile raises many kinds for damaged archives
            reason = f"is a damaged archive ({type(error).__name__})"
            raise Unreadable(reason) from None
        refuse_entries(len(self.zip.infolist()))

    def files(self, itself: ListedFile) -> Iterator[ListedFile]:
        """Lists what learners made; a file can be read while the source is open."""
        for info in self.zip.infolist():
            path = name_of(info)[:MAX_NAME]
            parts = tuple(part for part in re.split(r"[/\\]", path) if part != ".")
            if info.is_dir() or not parts or is_ignored(parts):
                continue
            read = functools.partial(self.read, info)
            time, problem = time_of(info) or itself.time, problem_of(info, parts)
            yield ListedFile((*itself.parts, *parts), time, read, problem)

    def read(self, info: zipfile.ZipInfo, limit: int) -> bytes:
        refuse_size(info.file_size, limit)
        self.left -= info.file_size
        if self.left < 0:
            raise TooLarge("unpacks to more than an archive may hold")
        try:
            with self.zip.open(info) as file:
                return file.read(info.file_size)  # no more, whatever is packed in it
        except Exception as error:
            raise Unreadable(f"is damaged ({type(error).__name__})") from None


def refuse_entries(number: int) -> None:
    if number > MAX_ENTRIES:
        raise TooLarge(f"holds {number} files; the limit is {MAX_ENTRIES}")


def problem_of(info: zipfile.ZipInfo, parts: tuple[str, ...]) -> str:
    """Says why a file in an archive cannot be read, or ""."""
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) and problem_of_kind(mode):
        return problem_of_kind(mode)
    if {"", ".."} & set(parts):
        return "has a path that leads out of the archive"
    return "is encrypted" if info.flag_bits & 1 else ""


def time_of(info: zipfile.ZipInfo) -> float:
    """Reads when a file in an archive was last changed; 0 if that is unknown."""
    try:
        when = datetime.datetime(*info.date_time)
        return when.timestamp() if when.year > 1980 else 0.0
    except (ValueError, OverflowError, OSError):
        return 0.0


def name_of(info: zipfile.ZipInfo) -> str:
    """Returns an entry's name: Korean Windows, for one, does not say its encoding."""
    if not info.flag_bits & 0x800 and BOX_LETTERS.search(info.filename):
        for encoding in ("utf-8", "cp949"):
            with contextlib.suppress(UnicodeError):
                return info.filename.encode("cp437").decode(encoding)
    return info.filename


def files_in_folder(folder: Path) -> list[ListedFile]:
    """Lists the files below a folder, without those that learners do not make.

    Links are not followed.
    """
    found = []
    for root, folders, names in os.walk(folder):
        inside = Path(root)
        parts = (folder.resolve().name, *inside.relative_to(folder).parts)
        links = [name for name in folders if (inside / name).is_symlink()]
        folders[:] = sorted(name for name in folders if not is_ignored([name]))
        for name in sorted([*names, *links]):
            if not is_ignored([name]):
                found.append(file_at(inside / name, parts))
    return found


def files_in_learners_archive(file: ListedFile) -> list[ListedFile]:
    """Lists the files of a learner's archive; what holds no notebook is listed itself.

    Raises:
        TooLarge: it is over a limit.
        OSError: this machine cannot read it.
    """
    if not file.is_archive:
        return [file]
    try:
        entries = [*Archive(file.read(), MAX_INNER).files(file)]
    except TooLarge:
        raise
    except Unreadable:
        return [file]
    if not any(one.is_notebook and not one.problem for one in entries):
        return [file]
    size = len(file.parts)
    return [
        replace(e, time=file.time, inner_time=e.time, inner=e.parts[size:])
        for e in entries
    ]
