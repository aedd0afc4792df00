"""Reads untrusted files and zip archives.

No link is followed, no pipe waited for, nothing unpacked by the name that an archive
gives it, and each byte that comes out of an archive is counted.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import os
import re
import stat
import struct
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

MAX_FILE = 256 << 20  # bytes of a file that is collected, whatever it is
MAX_ENTRIES = 20_000  # of one archive
MAX_NAME = 1000  # characters of a path in an archive
CHUNK = 1 << 20
# What operating systems and Jupyter put beside a learner's files.
IGNORED = {"__MACOSX", ".DS_Store", ".ipynb_checkpoints", "Thumbs.db", "desktop.ini"}
END = struct.Struct("<10xH10x")  # of an archive: how many files it lists
KINDS = {
    stat.S_IFLNK: "is a link",
    stat.S_IFDIR: "is a folder",
    stat.S_IFIFO: "is a named pipe",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}
# Not on each operating system; where they are missing, lstat alone has to do.
OPEN_FLAGS = sum(
    getattr(os, name, 0)
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
)


class Unreadable(Exception):
    """Why a file cannot be taken: what follows its name, as in "is a link"."""


class TooLarge(Unreadable):
    """A file, or what comes out of an archive, is over its limit."""


@dataclasses.dataclass
class Budget:
    """How many bytes may still come out of archives."""

    left: int

    def spend(self, num_bytes: int) -> None:
        """Takes bytes off.

        Raises:
            TooLarge: there are not that many left.
        """
        self.left -= num_bytes
        if self.left < 0:
            raise TooLarge("unpacks to more than an archive may hold")


def read_file(path: Path, limit: int) -> bytes:
    """Reads an ordinary file of at most `limit` bytes.

    Raises:
        Unreadable: it is a link, a folder, a pipe or a device, or larger.
        OSError: this machine cannot read it, which is no fault of the file's.
    """
    refuse_kind(os.lstat(path).st_mode)
    with open(os.open(path, os.O_RDONLY | OPEN_FLAGS), "rb") as file:
        facts = os.fstat(file.fileno())  # of what was opened, whatever lies there now
        refuse_kind(facts.st_mode)
        refuse_size(facts.st_size, limit)
        data = file.read(limit + 1)
    refuse_size(len(data), limit)
    return data


def refuse_kind(mode: int) -> None:
    """Raises `Unreadable` for all but an ordinary file."""
    if not stat.S_ISREG(mode):
        raise Unreadable(KINDS.get(stat.S_IFMT(mode), "is no ordinary file"))


def refuse_size(num_bytes: int, limit: int) -> None:
    """Raises `TooLarge` for more bytes than `limit`."""
    if num_bytes > limit:
        size = max(num_bytes >> 20, (limit >> 20) + 1)
        raise TooLarge(f"has {size} MB; the limit is {limit >> 20} MB")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One file in an archive.

    Attributes:
        parts: its path in the archive.
        time: when it was last changed, in seconds since 1970; 0 where that is unknown.
        problem: why it cannot be taken; "" where that is not known yet.
    """

    parts: tuple[str, ...]
    time: float
    problem: str
    _archive: zipfile.ZipFile
    _info: zipfile.ZipInfo

    def read(self, limit: int, budget: Budget) -> bytes:
        """Unpacks it into memory.

        Raises:
            Unreadable: it is unsafe, encrypted, damaged, or larger than `limit`.
        """
        if self.problem:
            raise Unreadable(self.problem)
        chunks, size = [], 0
        try:
            with self._archive.open(self._info) as file:
                while chunk := file.read(CHUNK):
                    size += len(chunk)
                    budget.spend(len(chunk))
                    # The size that the archive states is only for the message.
                    if size > limit:
                        refuse_size(max(size, self._info.file_size), limit)
                    chunks.append(chunk)
        except Unreadable:
            raise
        except Exception as error:  # zipfile raises many kinds for damaged archives
            raise Unreadable(f"is damaged ({type(error).__name__})") from None
        return b"".join(chunks)


def entries(file: BinaryIO | bytes) -> Iterator[Entry]:
    """Lists the files of a zip archive, without those in `IGNORED`.

    Raises:
        Unreadable: it is no zip archive, damaged, or has too many files.
    """
    if isinstance(file, bytes):
        # Each entry costs memory before zipfile can be asked how many there are.
        refuse_entries(file.count(b"PK\x01\x02"))
        file = io.BytesIO(file)
    try:
        archive = zipfile.ZipFile(file)
    except Exception as error:  # zipfile raises many kinds for damaged archives
        raise Unreadable(f"is a damaged archive ({type(error).__name__})") from None
    refuse_entries(len(archive.infolist()))
    refuse_missing(archive)
    for info in archive.infolist():
        path = info.filename
        if len(path) > MAX_NAME:
            path = path[:MAX_NAME] + "..."
        parts = tuple(part for part in re.split(r"[/\\]", path) if part != ".")
        if info.is_dir() or not parts or is_ignored(parts):
            continue
        yield Entry(parts, time_of(info), problem_of(info, parts), archive, info)


def refuse_missing(archive: zipfile.ZipFile) -> None:
    """Raises `Unreadable` where a damaged list hides some of an archive's files."""
    size = archive.fp.seek(0, os.SEEK_END)
    archive.fp.seek(max(0, size - END.size - 0xFFFF))  # a comment may stand behind it
    tail = archive.fp.read()
    (stated,) = END.unpack_from(tail, tail.rindex(b"PK\x05\x06"))
    found = len(archive.infolist())
    if stated not in (found, 0xFFFF):  # which stands for more than this field can say
        raise Unreadable(f"is a damaged archive ({found} of {stated} files are listed)")


def is_ignored(parts: Sequence[str]) -> bool:
    """Tells whether a path is of no learner's making."""
    return bool(IGNORED & set(parts)) or parts[-1].startswith("._")


def refuse_entries(number: int) -> None:
    """Raises `TooLarge` where an archive has too many files."""
    if number > MAX_ENTRIES:
        raise TooLarge(f"holds {number} files; the limit is {MAX_ENTRIES}")


def problem_of(info: zipfile.ZipInfo, parts: tuple[str, ...]) -> str:
    """Says why an archive's file is not to be read, or ""."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return KINDS.get(kind, "is no ordinary file")
    if len(info.filename) > MAX_NAME:
        return "has a name that is too long"
    if {"", ".."} & set(parts) or re.match(r"[A-Za-z]:", parts[0]):
        return "has a path that leads out of the archive"
    return "is encrypted" if info.flag_bits & 1 else ""


def time_of(info: zipfile.ZipInfo) -> float:
    """Reads when an archive's file was last changed; 0: the archive does not know."""
    try:
        when = datetime.datetime(*info.date_time)
        return when.timestamp() if when.year > 1980 else 0.0
    except (ValueError, OverflowError, OSError):
        return 0.0
