"""Reads, packs and writes the course's own files: each in one step."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Iterable
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


def packed(files: Iterable[tuple[str, str | bytes]]) -> bytes:
    """Packs files, by path, into a zip archive: for the same files, the same bytes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files:
            info = zipfile.ZipInfo(name)  # of the time 1980-01-01
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            file.writestr(info, content)
    return data.getvalue()
