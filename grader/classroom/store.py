"""Keeps results on disk under the hash of what decides them, and the log of grading."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
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
from grader.results import Record, result_of
from grader.workers.cache_key import key_of


class Store:
    """Results in `folder`/results, a file each, and the log `folder`/audit.jsonl."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.log = folder / "audit.jsonl"

    def path(self, key: str) -> Path:
        return self.folder / "results" / key[:2] / f"{key}.json"

    def get(self, key: str) -> Record | None:
        """Reads a result; None where there is none, or a damaged one."""
        try:
            facts = json.loads(self.path(key).read_text(encoding="utf-8"))
            record = Record(**facts | {"result": result_of(facts["result"])})
            return record if record.key == key == key_of(record.hashes) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, record: Record) -> None:
        """Stores a result; after this returns, not even a power cut loses it.

        Raises:
            OSError: for instance a full disk; nothing half-written is left.
        """
        facts = dataclasses.asdict(record) | {"seconds": round(record.seconds, 2)}
        write(self.path(record.key), json.dumps(facts, sort_keys=True) + "\n")

    def add_to_log(self, event: str, **facts: Any) -> None:
        """Adds a line with the time to the log, which only ever grows."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        line = json.dumps({"at": now, "event": event, **facts}) + "\n"
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.log, "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # a crash cut the last line short
                    line = "\n" + line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def log_entries(self, **facts: str) -> Iterator[dict[str, Any]]:
        """Yields the entries of the log that contain these facts."""
        with contextlib.suppress(FileNotFoundError), open(self.log, "rb") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    entry = json.loads(line)
                    if facts.items() <= entry.items():
                        yield entry

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Makes this process the only writer.

        Raises:
            CourseError: another process is writing to this store.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "a+", encoding="utf-8") as file:
            try:
                if fcntl:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                raise CourseError(
                    f"{self.folder} is in use by another grading "
                    f"(process {file.read().strip() or 'unknown'}). Wait for its end."
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield
