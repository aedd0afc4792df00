"""Monitors a box from outside: what it uses in total, and what it writes to stderr."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from grader.containment.cgroup import Group
from grader.containment.limits import Limits

INTERVAL_S = 0.25
FRESH_S = 0.2
MAX_SOCKETS = 1000  # each holds up to 400 kB


class StderrTail(threading.Thread):
    """Reads the standard error of a box and keeps the end of it.

    A pipe that nobody reads would block a process that writes a lot.
    """

    def __init__(self, pipe: int):
        super().__init__(daemon=True, name=f"stderr-tail-{pipe}")
        self.pipe, self.last = pipe, b""

    def run(self) -> None:
        """Reads until the last process that can write has ended."""
        with open(self.pipe, "rb", buffering=0) as pipe:
            while block := pipe.read(2**16):
                self.last = (self.last + block)[-500:]

    def __str__(self) -> str:
        self.join(timeout=1)
        return self.last.decode(errors="replace").strip()


class Monitor(threading.Thread):
    """Kills a box that uses too much in total, which no limit on one process sees.

    Args:
        pids: the box's process first, then others whose children are in it.
        limits: what all of them may use together.
        group: the box's control group, if it has one, which counts CPU time.

    Attributes:
        exceeded: the limit that the box exceeded, in plain words, or "".
        cpu_s: seconds of CPU time that the box has used, as of a moment ago.
    """

    def __init__(self, pids: Sequence[int], limits: Limits, group: Group | None = None):
        super().__init__(daemon=True, name=f"monitor-{pids[0]}")
        self.process = psutil.Process(pids[0])
        self.others = []
        with contextlib.suppress(psutil.Error):  # one that has ended has no children
            self.others += map(psutil.Process, pids[1:])
        self.limits, self.group = limits, group
        self.exceeded, self.cpu_s = "", 0.0
        self.ended = threading.Event()

    def run(self) -> None:
        """Checks again and again until the box ends or exceeds a limit."""
        while not self.ended.wait(INTERVAL_S):
            with contextlib.suppress(psutil.Error, OSError):
                self.exceeded = self.exceeded_limit()
                if self.exceeded:
                    self.process.kill()
                    return

    def exceeded_limit(self) -> str:
        """Names the limit that the box exceeds now, or returns ""."""
        limits, processes = self.limits, self.processes()
        used = self.group.cpu_s if self.group else 0.0
        self.cpu_s = max(self.cpu_s, used, cpu_time(processes))
        if self.cpu_s > limits.cpu_s:
            return f"CPU: more than {limits.cpu_s} s of all processes together"
        if len(processes) > limits.busy:
            return f"processes: more than {limits.busy} at a time"
        most = limits.memory_mib * 2**20
        # The quick sum, which counts shared memory in each process, comes first.
        if memory(processes) > most and memory(processes, exact=True) > most:
            return too_much_memory(limits)
        if files(processes) > limits.files:
            return f"disk: more than {limits.files} files"
        if sockets(processes) > MAX_SOCKETS:
            return f"memory: more than {MAX_SOCKETS} sockets"
        return ""

    def processes(self) -> list[psutil.Process]:
        """Lists the processes of the box, as of a moment ago."""
        roots = [self.process, *self.others]
        return descendants([root.pid for root in roots if root.is_running()])

    def stop(self) -> None:
        """Stops monitoring."""
        self.ended.set()


def too_much_memory(limits: Limits) -> str:
    """Names the limit on memory, in plain words."""
    return f"memory: more than {limits.memory_mib} MiB"


_children: dict[int, list[psutil.Process]] = {}
_read_at = -FRESH_S
_lock = threading.Lock()


def children() -> dict[int, list[psutil.Process]]:
    """Maps processes of this machine to their children, as of a moment ago.

    That takes reading all of `/proc`, so the monitors of all boxes share it.
    """
    global _children, _read_at
    with _lock:
        if time.monotonic() - _read_at >= FRESH_S:
            _children, _read_at = {}, time.monotonic()
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    _children.setdefault(process.ppid(), []).append(process)
        return _children


def descendants(pids: Sequence[int]) -> list[psutil.Process]:
    """Lists the children of these processes, and their children, and so on."""
    known, found = children(), []
    for pid in pids:
        todo = known.get(pid, [])
        while todo:
            found += todo
            todo = [child for one in todo for child in known.get(one.pid, [])]
    return found


def cpu_time(processes: list[psutil.Process]) -> float:
    """Adds up CPU seconds, those of children that have ended included."""
    used = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            used += sum(process.cpu_times()[:4])
    return used


def memory(processes: list[psutil.Process], exact: bool = False) -> int:
    """Adds up resident memory; with `exact`, shared memory counts once."""
    used = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            used += process.memory_info().rss
            if exact:
                facts = process.memory_full_info()
                used += facts.pss - facts.rss
    return used


def files(processes: list[psutil.Process]) -> int:
    """Counts the files in a box's private folders: its first process sees them."""
    used = 0
    for folder in ("tmp", "dev/shm"):
        with contextlib.suppress(OSError):
            for first in processes[:1]:
                system = os.statvfs(Path("/proc", str(first.pid), "root", folder))
                used += system.f_files - system.f_ffree
    return used


def sockets(processes: list[psutil.Process]) -> int:
    """Counts the sockets in a box: their buffers are not in any process's memory."""
    with contextlib.suppress(OSError):
        for first in processes[:1]:
            facts = Path(f"/proc/{first.pid}/net/sockstat").read_text()
            return int(facts.split()[2])
    return 0
