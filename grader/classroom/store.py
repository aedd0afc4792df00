"""Keeps finished results on disk: each in one step, under the hash of what it is of."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows, where a class is only graded with --trusted
    fcntl = None

from grader import CourseError
from grader.atomic_files import write
from grader.results import Record, from_json, to_json
from grader.workers.cache_key import key_of


class StoreError(CourseError):
    """The store cannot be used: somebody else writes to it."""


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
                seconds, used = facts["seconds"], facts.get("used", {})
                return Record(key, facts["hashes"], result, seconds, used)
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
            "used": dict(record.used),
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
