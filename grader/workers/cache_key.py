"""Identifies a result by the hashes of everything that decides it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from nbformat import NotebookNode

from coursekit.setup import version_of
from grader import ROOT
from grader.containment.limits import Limits
from grader.lessons import coursekit
from grader.lessons.release import dumps

# The parts of the grader that decide a grade; the others display it or serve authors.
DECIDING = (
    "containment kernel judging submissions results.py lessons/release.py".split()
)


def lesson_hashes(
    lesson: NotebookNode, limits: Limits, root: Path = ROOT
) -> dict[str, str]:
    """Hashes everything that a result depends on, except the submission itself.

    The class's seed is hashed separately, since it does not change what our solution
    compiles.
    """
    package = version_of(coursekit.read(root))  # without translated messages
    plain = lesson.copy()
    plain.metadata = lesson.metadata.copy()
    seed = plain.metadata.pop("seed", 0)
    return {
        "lesson": sha256((dumps(plain) + package).encode()),
        "seed": sha256(str(seed).encode()),
        "grader": sha256(deciding_source() + repr(limits).encode()),
        "packages": sha256(installed_packages()),
    }


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def key_of(hashes: Mapping[str, str]) -> str:
    """Combines the hashes into the key under which a result is stored."""
    return sha256(json.dumps(hashes, sort_keys=True).encode())


def deciding_modules(root: Path = ROOT) -> list[Path]:
    """Lists the grader's files that decide a grade."""
    places = [root / "grader" / name for name in DECIDING]
    found = {path for place in places for path in (place, *place.rglob("*.py"))}
    return sorted(path for path in found if path.is_file())


@functools.cache
def deciding_source() -> bytes:
    return b"".join(path.read_bytes() for path in deciding_modules())


@functools.cache
def installed_packages() -> bytes:
    """Lists Python and the installed versions of the locked packages.

    Packages that only tests need are not locked: installing one regrades nothing.
    """
    lock = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    found = []
    for name in re.findall(r"(?m)^([\w.-]+)==", lock):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name}=={importlib.metadata.version(name)}")
    return "\n".join([platform.python_version(), *found]).encode()
