"""Monitors a box from outside: what it uses in total, and what it writes to stderr."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil

from grader.containment.cgroup import Group
from grader.containment.limits import Limits

INTERVAL_S = 0.25
MAX_SOCKETS = 1000  # each holds up to 400 kB


class StderrTail(threading.Thread):
    """Reads the standard error of a box and keeps the end of it.

    A pipe that nobody reads would block a process that writes a lot.
    """

    def __init__(self, pipe: int):
        super().__init__(daemon=True, name=f"stderr-tail-{pipe}")
        self.pipe, self.last = pipe, b""

    def run(self) -> None:
        with open(self.pipe, "rb", buffering=0) as pipe:
            while block := pipe.read(2**16):
                self.last = (self.last + block)[-500:]

    def __str__(self) -> str:
        self.join(timeout=1)
        return self.last.decode(errors="replace").strip()


class Monitor(threading.Thread):
    """Kills a box that uses too much in total, which no limit on one process sees.

    The first of the `pids` is the box's own process; the children of all of them are in
    the box. If it has a control `group`, that counts CPU time.

    Attributes:
        exceeded: the limit that the box exceeded, in plain words, or "".
        cpu_s: seconds of CPU time that the box has used, as of a moment ago.
    """

    def __init__(self, pids: Sequence[int], limits: Limits, group: Group | None = None):
        super().__init__(daemon=True, name=f"monitor-{pids[0]}")
        self.process = psutil.Process(pids[0])
        self.pids, self.limits, self.group = pids, limits, group
        self.exceeded, self.cpu_s = "", 0.0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(INTERVAL_S):
            with contextlib.suppress(psutil.Error, OSError):
                self.exceeded = self.exceeded_limit()
                if self.exceeded:
                    self.process.kill()
                    return

    def exceeded_limit(self) -> str:
        """Names the limit that the box exceeds now, or returns ""."""
        limits, processes = self.limits, self.processes()
        used = self.group.cpu_s if self.group else total(cpu_s, processes)
        self.cpu_s = max(self.cpu_s, used)
        if self.cpu_s > limits.cpu_s:
            return f"CPU: more than {limits.cpu_s} s of all processes together"
        if len(processes) > limits.busy:
            return f"processes: more than {limits.busy} at a time"
        most = limits.memory_mib * 2**20
        # Reading how much memory processes share takes ten times as long.
        if total(resident, processes) > most and total(unshared, processes) > most:
            return f"memory: more than {limits.memory_mib} MiB"
        if total(files, processes[:1]) > limits.files:
            return f"disk: more than {limits.files} files"
        if total(sockets, processes[:1]) > MAX_SOCKETS:
            return f"memory: more than {MAX_SOCKETS} sockets"
        return ""

    def processes(self) -> list[psutil.Process]:
        """Lists the processes of the box, its first one first."""
        found = []
        if self.process.is_running():  # or else its number may be another's
            for pid in self.pids:
                found += descendants(pid)
        return found

    def stop(self) -> None:
        self.ended.set()


def descendants(pid: int) -> list[psutil.Process]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError, psutil.Error):
            for child in map(int, path.read_text().split()):
                found += [psutil.Process(child), *descendants(child)]
    return found


def total(count, processes: list[psutil.Process]) -> float:
    """Adds up what `count` returns for each process; one that has ended counts 0."""
    used = 0
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            used += count(process)
    return used


def cpu_s(process: psutil.Process) -> float:
    """Includes what its children used that have ended."""
    return sum(process.cpu_times()[:4])


def resident(process: psutil.Process) -> int:
    return process.memory_info().rss


def unshared(process: psutil.Process) -> int:
    """Counts memory that processes share once, in equal parts."""
    return process.memory_full_info().pss


def files(first: psutil.Process) -> int:
    """Counts the files in the private folders that a box's first process sees."""
    root = Path(f"/proc/{first.pid}/root")
    systems = [os.statvfs(root / folder) for folder in ("tmp", "dev/shm")]
    return sum(system.f_files - system.f_ffree for system in systems)


def sockets(first: psutil.Process) -> int:
    """Counts the sockets in a box: their buffers are not in any process's memory."""
    return int(
        Path(f"/proc/{first.pid}/net/sockstat").read_text(encoding="utf-8").split()[2]
    )
