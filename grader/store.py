"""Keeps finished results on disk: each in one step, under the hash of what it is of."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows, where a class is only graded with --trusted
    fcntl = None

from nbformat import NotebookNode

from grader import MODULES, ROOT, CourseError
from grader.containment import Limits
from grader.own_files import dumps, write
from grader.results import Result, from_json, to_json


class StoreError(CourseError):
    """The store cannot be used: somebody else writes to it."""


@dataclasses.dataclass(frozen=True)
class Record:
    """A result and what it is of.

    Attributes:
        key: hash of all `hashes`; the same key stands for the same result.
        hashes: SHA-256 of submission, lesson, grader (limits included) and packages.
        result: what became of the submission.
        seconds: how long grading took; no part of the key or of an export.
    """

    key: str
    hashes: Mapping[str, str]
    result: Result
    seconds: float = 0.0


def lesson_hashes(
    lesson: NotebookNode, limits: Limits, root: Path = ROOT
) -> dict[str, str]:
    """Hashes everything that a result depends on, but for the submission itself."""
    modules = [(root / "lessons" / f"{name}.py").read_bytes() for name in MODULES]
    return {
        "lesson": sha256(b"".join([dumps(lesson).encode(), *modules])),
        "grader": sha256(grader_source() + repr(limits).encode()),
        "packages": sha256(packages()),
    }


def sha256(data: bytes) -> str:
    """Returns the SHA-256 of `data` as text."""
    return hashlib.sha256(data).hexdigest()


def key_of(hashes: Mapping[str, str]) -> str:
    """Hashes the hashes: the name under which a result is kept."""
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


@functools.cache
def grader_source() -> bytes:
    """Returns the source of the modules that decide about a grade."""
    files = sorted((ROOT / "grader").glob("*.py"))
    return b"".join(path.read_bytes() for path in files)


@functools.cache
def packages() -> bytes:
    """Lists Python and all installed packages with their versions."""
    found = set()
    for distribution in importlib.metadata.distributions():
        facts = distribution.metadata  # each look at it parses a file
        found.add(f"{facts['Name'].lower()}=={facts['Version']}")
    return "\n".join([platform.python_version(), *sorted(found)]).encode()


class Store:
    """Results in `folder`/results, a file each, and the log `folder`/audit.jsonl."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.results = folder / "results"
        self.log = folder / "audit.jsonl"

    def path(self, key: str) -> Path:
        """Names the file of a result."""
        return self.results / key[:2] / f"{key}.json"

    def get(self, key: str) -> Record | None:
        """Reads a finished result; None where there is none, or a damaged one."""
        try:
            facts = json.loads(self.path(key).read_text(encoding="utf-8"))
            result = from_json(json.dumps(facts["result"]))
            if facts["key"] == key == key_of(facts["hashes"]):
                return Record(key, facts["hashes"], result, facts["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def put(self, record: Record) -> None:
        """Keeps a result; after this returns, not even a power cut loses it.

        Raises:
            OSError: for instance a full disk; nothing half-written is left.
        """
        facts = {
            "key": record.key,
            "hashes": dict(record.hashes),
            "result": json.loads(to_json(record.result)),
            "seconds": round(record.seconds, 2),
        }
        write(self.path(record.key), json.dumps(facts, sort_keys=True) + "\n")

    def remove(self, key: str) -> None:
        """Forgets a result."""
        self.path(key).unlink(missing_ok=True)

    def record(self, event: str, now: str, **facts: Any) -> None:
        """Adds a line to the log, which only ever grows."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"at": now, "event": event, **facts}) + "\n"
        with open(self.log, "ab") as file:
            # A line that a crash cut short must not swallow this one.
            if file.tell() and not self.ends_with_newline():
                line = "\n" + line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def ends_with_newline(self) -> bool:
        """Tells whether the log's last line is whole."""
        with open(self.log, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"

    def history(self, student: str = "", lesson: str = "") -> Iterator[dict[str, Any]]:
        """Yields the log's entries, of one learner and lesson where given."""
        with contextlib.suppress(FileNotFoundError), open(self.log, "rb") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    entry = json.loads(line)
                    if student in ("", entry.get("student")) and lesson in (
                        "",
                        entry.get("lesson"),
                    ):
                        yield entry

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Makes this process the only writer.

        Raises:
            StoreError: another process writes to this store now.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "a+") as file:
            try:
                if fcntl:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                who = file.read().strip() or "unknown"
                raise StoreError(
                    f"{self.folder} is in use by another grading (process {who}). Wait "
                    "for its end."
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield
