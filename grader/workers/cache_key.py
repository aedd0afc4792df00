"""Names a result by the hash of everything that decides it."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from nbformat import NotebookNode

from grader import ROOT
from grader.authoring import coursekit
from grader.authoring.release import dumps
from grader.containment.limits import Limits

# What grading begins with; the judge's module is started by its name.
ENTRIES = ("grader.judging.grade_submission", "grader.judging.judge")
# Started by their paths, inside of a box or on their way into it.
INSIDE = ("grader/containment/inside", "grader/kernel/inside")


def lesson_hashes(
    lesson: NotebookNode, limits: Limits, root: Path = ROOT
) -> dict[str, str]:
    """Hashes everything that a result depends on, but for the submission itself.

    The class's seed has a hash of its own: for all classes our solutions compile the
    same programs.
    """
    package = coursekit.version(coursekit.read(root))  # but for translated messages
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
    """Returns the SHA-256 of `data` as text."""
    return hashlib.sha256(data).hexdigest()


def key_of(hashes: Mapping[str, str]) -> str:
    """Hashes the hashes: the name under which a result is stored."""
    return sha256(json.dumps(hashes, sort_keys=True).encode())


@functools.cache
def deciding_source(root: Path = ROOT) -> bytes:
    """Returns the source of the modules that decide about a grade."""
    paths = sorted(deciding_modules(root))
    return b"".join(path.read_bytes() for path in paths)


def deciding_modules(root: Path) -> set[Path]:
    """Finds the grader's modules that grading one submission imports or starts."""
    todo = [path for name in ENTRIES for path in files_of(name, root)]
    todo += [path for folder in INSIDE for path in (root / folder).glob("*.py")]
    found: set[Path] = set()
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            for name in imported_by(path, root):
                todo += files_of(name, root)
    return found


def imported_by(path: Path, root: Path) -> Iterator[str]:
    """Names what a module imports: modules, and names that may be modules."""
    package = path.parent.relative_to(root).parts
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
            yield base


def files_of(name: str, root: Path) -> list[Path]:
    """Names the files that importing one of the grader's modules runs."""
    parts = name.split(".")
    if parts[0] != "grader":
        return []
    folders = [root.joinpath(*parts[:end]) for end in range(1, len(parts) + 1)]
    files = [folder / "__init__.py" for folder in folders]
    return [p for p in (*files, folders[-1].with_suffix(".py")) if p.is_file()]


@functools.cache
def installed_packages() -> bytes:
    """Lists Python and the installed versions of the locked packages.

    What only tests need is not among them: installing it regrades nothing.
    """
    lock = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    found = []
    for name in re.findall(r"(?m)^([\w.-]+)==", lock):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name}=={importlib.metadata.version(name)}")
    return "\n".join([platform.python_version(), *found]).encode()
