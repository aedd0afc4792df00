"""Identifies a result by the hashes of everything that decides it."""

from __future__ import annotations

import ast
import contextlib
import copy
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
from grader.authoring.check_source import lines_of, marked
from grader.containment.limits import Limits
from grader.lessons import coursekit
from grader.lessons.release import checks, dumps, hidden_source

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
        "checks": json.dumps(hashes_of_checks(plain, package)),
        "seed": sha256(str(seed).encode()),
        "grader": sha256(deciding_source() + repr(limits).encode()),
        "packages": sha256(installed_packages()),
    }


def hashes_of_checks(lesson: NotebookNode, package: str) -> dict[str, str]:
    """Hashes what only one exercise's check is made of, by exercise; "": all else."""
    lines = lesson.metadata.get("checks", "").splitlines(keepends=True)
    others, own = copy.deepcopy(lesson), dict.fromkeys(checks(lesson), "")
    for name, node, _ in marked(ast.parse("".join(lines))):
        if name in own:
            own[name] += "".join(lines[lines_of(node)])
            lines[lines_of(node)] = [""] * len(lines[lines_of(node)])
    others.metadata["checks"] = "".join(lines)
    for name, cell in checks(others).items():
        own[name] += hidden_source(cell)
        cell.source = cell.source.replace(hidden_source(cell), "")
    texts = own | {"": dumps(others) + package}
    return {name: sha256(text.encode())[:16] for name, text in texts.items()}


def without_check(hashes: Mapping[str, str], exercise: str) -> dict[str, str]:
    """Returns the hashes of what decides the results of all other exercises."""
    parts = json.loads(hashes.get("checks", "{}"))
    parts.pop(exercise, None)
    return {**hashes, "lesson": "", "checks": json.dumps(parts)}


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
