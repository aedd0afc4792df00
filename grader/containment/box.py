"""Describes what a contained process may see and use, whatever contains it."""

from __future__ import annotations

import dataclasses
import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from grader import ROOT
from grader.containment.limits import ContainmentError, Limits

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
SETTINGS = ("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d")
BOX_INIT = "/box_init.py"  # where inside/box_init.py lies in a box


@dataclasses.dataclass(frozen=True)
class Box:
    """What a contained process sees beside the system and Python.

    Attributes:
        limits: what it may use.
        read_only: files or folders, each at its own path or (outside, inside).
        writable: the one folder of the host that it may write to, or None.
        env: its whole environment, except for PATH, HOME and the like.
    """

    limits: Limits = dataclasses.field(default_factory=Limits)
    read_only: tuple[Path | tuple[Path, str], ...] = ()
    writable: Path | None = None
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def mounts(self) -> dict[str, str]:
        """What is mounted read-only: {path inside: path outside}, parents first.

        Raises:
            ContainmentError: the course itself would be part of it.
        """
        ours = (p if isinstance(p, tuple) else (p, str(p)) for p in self.read_only)
        python = python_folders()
        if any(ROOT.is_relative_to(folder) for folder in python):
            raise ContainmentError(
                f"The course's folder {ROOT} is inside Python's own, which every "
                "learner's code can read: move it, or install Python elsewhere."
            )
        found = {str(path): str(path) for path in python}
        found[BOX_INIT] = str(ROOT / "grader/containment/inside/box_init.py")
        return found | {inside: str(outside) for outside, inside in ours}

    @property
    def hidden(self) -> list[str]:
        """The course's folder, where the system's folders would show it."""
        return [str(ROOT)] if any(ROOT.is_relative_to(path) for path in SYSTEM) else []

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the process starts with."""
        base = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONNOUSERSITE": "1",
            "JAX_PLATFORMS": "cpu",
            "COURSE_CONTAINED": "1",
        }
        return base | dict(self.env)


def with_limits(command: list[str], limits: Limits, *without: str) -> list[str]:
    """Puts `prlimit` before a command; its children inherit the limits."""
    values = {
        "as": limits.address_mib * 2**20,
        "cpu": limits.cpu_s,
        "nproc": limits.processes,
        "nofile": limits.open_files,
        "fsize": limits.disk_mib * 2**20,
        "core": 0,
    }
    words = [f"--{name}={n}" for name, n in values.items() if name not in without]
    return ["prlimit", *words, *command]


def with_box_init(mode: str, command: list[str]) -> list[str]:
    """Puts inside/box_init.py before a command; its docstring lists the modes."""
    return [sys.executable, "-I", "-S", BOX_INIT, mode, *command]


def unused_uid(folder: Path | None = None) -> int:
    """Draws a user id that nothing else on this machine has, and gives it a folder."""
    uid = 1_900_000_000 + secrets.randbelow(240_000_000)
    if folder:
        for path in (folder, *folder.iterdir()):
            os.chown(path, uid, uid, follow_symlinks=False)
    return uid


def python_folders() -> list[Path]:
    """Lists the folders of this Python and its packages outside of the system's."""
    executable = Path(os.path.realpath(sys.executable))
    found = {Path(sys.prefix), Path(sys.base_prefix), executable.parent.parent}
    return sorted(p for p in found if not any(p.is_relative_to(s) for s in SYSTEM))


def parents(paths: Iterable[str]) -> list[str]:
    """Lists the folders above `paths` that a box lacks, outermost first."""
    above = {str(folder) for path in paths for folder in Path(path).parents}
    ready = ("/", "/tmp", *SYSTEM)
    return sorted(p for p in above if p not in ready and not p.startswith("/usr/"))
