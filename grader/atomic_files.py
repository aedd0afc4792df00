"""Reads and writes the course's own files: each in one step."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def read_text(path: Path) -> str:
    """Reads a file's text; "" where there is no file."""
    if not path.exists():
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def write(path: Path, text: str) -> None:
    """Replaces a text file in one step."""
    write_file(path, text.encode())


def write_file(
    path: Path, data: bytes, time: float | None = None, mode: int = 0o644
) -> None:
    """Replaces a file in one step: nobody sees half of it, a power cut loses nothing.

    `time` becomes the time of its last change.

    Raises:
        OSError: the folder is not writable or full; the file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        if time is not None:
            os.utime(temporary, (time, time))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
