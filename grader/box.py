"""Says what a contained process may see and use, whatever contains it."""

from __future__ import annotations

import dataclasses
import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from grader import ROOT, CourseError

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
SETTINGS = ("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d")
GUARD = "/guard.py"  # where grader/guard.py lies inside


class ContainmentError(CourseError):
    """Nothing on this machine can contain a stranger's process."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one contained process, with all its children, may use.

    Attributes:
        wall_s: seconds for one cell, or for one question about a function.
        cpu_s: seconds of CPU time of any single process.
        memory_mib: resident memory of all processes together.
        address_mib: address space of any single process; JAX maps about 2,100.
        processes: processes and threads; JAX with eight devices starts about 80.
        open_files: file handles of any single process.
        disk_mib: size of the private /tmp, and of any file.
        files: number of files in the private /tmp and /dev/shm.
        output_mib: bytes of output that are read before the process is stopped.
    """

    wall_s: float = 60
    cpu_s: int = 900
    memory_mib: int = 3000
    address_mib: int = 6000
    processes: int = 400
    open_files: int = 512
    disk_mib: int = 256
    files: int = 100_000
    output_mib: int = 20


@dataclasses.dataclass(frozen=True)
class Box:
    """What a contained process sees beside the system and Python.

    Attributes:
        limits: what it may use.
        read_only: files or folders, each at its own path or (outside, inside).
        writable: the one folder of the host that it may write to, or None.
        env: its whole environment, but for PATH, HOME and the like.
    """

    limits: Limits = Limits()
    read_only: tuple[Path | tuple[Path, str], ...] = ()
    writable: Path | None = None
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def mounts(self) -> dict[str, str]:
        """What is mounted read-only: {path inside: path outside}, parents first.

        Raises:
            ContainmentError: the course itself would be among it.
        """
        ours = (p if isinstance(p, tuple) else (p, str(p)) for p in self.read_only)
        python = python_folders()
        if any(ROOT.is_relative_to(folder) for folder in python):
            raise ContainmentError(
                f"The course's folder {ROOT} is a part of Python's own, which every "
                "learner's code sees: move it, or make another environment for it."
            )
        found = {str(path): str(path) for path in python}
        found[GUARD] = str(ROOT / "grader" / "guard.py")
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


def bounded(command: list[str], limits: Limits, *without: str) -> list[str]:
    """Words that set the limits of a process, which its children inherit."""
    most = {
        "as": limits.address_mib * 2**20,
        "cpu": limits.cpu_s,
        "nproc": limits.processes,
        "nofile": limits.open_files,
        "fsize": limits.disk_mib * 2**20,
        "core": 0,
    }
    words = [f"--{key}={most[key]}" for key in most if key not in without]
    return ["prlimit", *words, *command]


def guarded(mode: str, command: list[str]) -> list[str]:
    """Words that put the guard in front of a command: see grader/guard.py."""
    return [sys.executable, "-I", "-S", GUARD, mode, *command]


def stranger(folder: Path | None) -> int:
    """Makes up a user that nothing else on this machine has, and gives it a folder."""
    uid = 1_900_000_000 + secrets.randbelow(240_000_000)
    if folder:
        for path in (folder, *folder.iterdir()):
            os.chown(path, uid, uid, follow_symlinks=False)
    return uid


def python_folders() -> list[Path]:
    """Folders that hold this Python and its packages, outside of the system's own."""
    executable = Path(os.path.realpath(sys.executable))
    found = {Path(sys.prefix), Path(sys.base_prefix), executable.parent.parent}
    return sorted(p for p in found if not any(p.is_relative_to(s) for s in SYSTEM))


def parents(paths: Iterable[str]) -> list[str]:
    """Folders above `paths`, outermost first, that are ours to create."""
    above = {str(folder) for path in paths for folder in Path(path).parents}
    ready = ("/", "/tmp", *SYSTEM)
    return sorted(p for p in above if p not in ready and not p.startswith("/usr/"))
