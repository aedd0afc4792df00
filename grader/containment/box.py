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
BOX_INIT = "/box_init.py"  # the path of inside/box_init.py in a box


@dataclasses.dataclass(frozen=True)
class Box:
    """What a contained process sees beside the system and Python.

    Attributes:
        limits: what it may use.
        read_only: files or folders, by their path in the box.
        env: its whole environment, except for PATH, HOME and the like.
    """

    limits: Limits = dataclasses.field(default_factory=Limits)
    read_only: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def mounts(self) -> dict[str, str]:
        """What is mounted read-only: {path inside: path outside}, parents first.

        Raises:
            ContainmentError: the course itself would be part of it.
        """
        python = python_folders()
        for folder in (*python, *SYSTEM):
            if ROOT.is_relative_to(folder):
                raise ContainmentError(
                    f"The course's folder {ROOT} is in {folder}, which every learner's "
                    "code can read: move it."
                )
        found = {str(path): str(path) for path in python}
        found[BOX_INIT] = str(ROOT / "grader/containment/inside/box_init.py")
        return found | {inside: str(path) for inside, path in self.read_only.items()}

    @property
    def environment(self) -> dict[str, str]:
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


def rlimits(limits: Limits) -> dict[str, int]:
    """Lists the limits of each process, by the names that `prlimit` gives them."""
    return {
        "as": limits.address_mib * 2**20,
        "cpu": limits.cpu_s,
        "nproc": limits.processes,
        "nofile": limits.open_files,
        "fsize": limits.disk_mib * 2**20,
        "core": 0,
    }


def limited_init(command: list[str], limits: Mapping[str, int]) -> list[str]:
    """Puts `prlimit` and box_init.py before a command."""
    words = [f"--{name}={value}" for name, value in limits.items()]
    return ["prlimit", *words, sys.executable, "-I", "-S", BOX_INIT, *command]


def unused_uid() -> int:
    """Draws a user id that nothing else on this machine has."""
    return 1_900_000_000 + secrets.randbelow(240_000_000)


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
