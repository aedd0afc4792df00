"""Reads the package that notebooks import, and packs it for Colab."""

from __future__ import annotations

import hashlib
import io
import shutil
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
    """Names the version of a package: the hash of its modules, messages left out.

    `setup.version` in the package says the same.
    """
    digest = hashlib.sha256()
    for name in sorted(name for name in modules if "messages_" not in name):
        digest.update(f"{name}\0{modules[name]}\0".encode())
    return digest.hexdigest()[:12]


def archive_path(version: str) -> PurePosixPath:
    """Names the archive of a version, from which Colab's notebooks import it.

    Earlier ones stay: an old copy of a notebook goes on with what it was made for.
    """
    return PurePosixPath(f"docs/colab/coursekit-{version}.zip")


def archive(modules: dict[str, str]) -> bytes:
    """Packs a package as a zip file; the same modules give the same bytes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(modules):
            info = zipfile.ZipInfo(f"coursekit/{name}", (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            packed.writestr(info, modules[name])
    return data.getvalue()


def copy(target: Path, root: Path = ROOT) -> None:
    """Copies the package into a folder, without what Python has compiled."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(
        folder(root), target / "coursekit", ignore=ignored, dirs_exist_ok=True
    )
