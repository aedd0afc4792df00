"""Reads the package that notebooks import, and packs it for Colab."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import zipfile
from pathlib import Path, PurePosixPath

from grader import ROOT


def folder(root: Path = ROOT) -> Path:
    """Names the package's folder."""
    return root / "lessons" / "coursekit"


def read(root: Path = ROOT) -> dict[str, str]:
    """Reads the package's modules, by their path in it: `draw/array.py`."""
    paths = sorted(folder(root).rglob("*.py"))
    return {
        path.relative_to(folder(root)).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
    }


def version(modules: dict[str, str]) -> str:
    """Names the version of a package: the hash of its modules.

    Messages and the lessons' checks are left out, as `setup.version` in the package
    leaves them out.
    """
    digest = hashlib.sha256()
    for name in sorted(modules):
        if "messages_" in name or is_lessons_checks(name):
            continue
        digest.update(f"{name}\0{modules[name]}\0".encode())
    return digest.hexdigest()[:12]


def is_lessons_checks(name: str) -> bool:
    """Tells whether a module of the package holds the checks of one lesson."""
    return bool(re.match(r"checks/\d", name))


def names_for_notebooks(modules: dict[str, str]) -> set[str]:
    """Lists what `coursekit.notebook` offers, without importing it."""
    return {
        name
        for module in ("notebook.py", "draw/__init__.py")
        for node in ast.walk(ast.parse(modules.get(module, "")))
        if isinstance(node, ast.Assign | ast.AugAssign)
        and "__all__" in ast.unparse(node).split("=")[0]
        for part in ast.walk(node.value)
        if isinstance(part, ast.Constant)
        for name in [part.value]
    }


def archive_path(version: str) -> PurePosixPath:
    """Names the archive of a version, from which Colab's notebooks import it."""
    return PurePosixPath(f"docs/colab/coursekit-{version}.zip")


def archive(modules: dict[str, str]) -> bytes:
    """Packs files of a package as a zip file; the same files give the same bytes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(modules):
            info = zipfile.ZipInfo(f"coursekit/{name}", (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            packed.writestr(info, modules[name])
    return data.getvalue()


def copy(target: Path, root: Path = ROOT) -> None:
    """Copies the package into a folder, without the lessons' checks."""
    for name, text in read(root).items():
        if not is_lessons_checks(name):
            path = target / "coursekit" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
