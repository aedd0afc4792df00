"""Limits what one contained process may use."""

from __future__ import annotations

import dataclasses

from grader import CourseError

DEFAULT_WALL_S = 60


class ContainmentError(CourseError):
    """Nothing on this machine can contain an untrusted process."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one contained process may use, with all its children.

    Attributes:
        wall_s: seconds for one cell, or for one question about a function, on a quiet
            machine.
        total_s: seconds for all of a submission.
        cpu_s: seconds of CPU time of all processes together.
        total_cpu_s: the same for all of a submission.
        memory_mib: resident memory of all processes together.
        address_mib: address space of any single process; JAX maps about 2,100.
        processes: processes and threads; JAX with eight devices starts about 80.
        busy: processes, whatever threads they have.
        open_files: open files of any single process.
        disk_mib: size of the private /tmp, and of any file.
        files: number of files in the private /tmp and /dev/shm.
        output_mib: answers and errors that are read before it is stopped.
    """

    wall_s: float = DEFAULT_WALL_S
    total_s: float = 1800
    cpu_s: int = 600
    total_cpu_s: float = 1200
    memory_mib: int = 3000
    address_mib: int = 6000
    processes: int = 400
    busy: int = 40
    open_files: int = 512
    disk_mib: int = 256
    files: int = 100_000
    output_mib: int = 20
