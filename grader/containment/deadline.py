"""Ends what takes too long, but not what waits because a machine is busy."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

LONGEST = 8  # times the seconds that are given, however long a machine is busy
LEAST = 0.02  # of the seconds: a shorter wait for a processor does not count


class Deadline:
    """The end of the `seconds` that processes are given on a quiet machine.

    Time that their threads waited for a processor does not count, unless the processes
    themselves keep processors busy. Linux counts it; elsewhere all time counts. `pids`
    lists the processes, `used` tells how many seconds of processors they have used.
    """

    def __init__(
        self,
        seconds: float,
        pids: Callable[[], Iterable[int]],
        used: Callable[[], float],
    ):
        self.seconds, self.pids, self.used = seconds, pids, used
        self.looked = time.monotonic()
        self.end, self.latest = self.looked + seconds, self.looked + LONGEST * seconds
        self.waited, self.most_used = 0.0, used() + seconds

    def has_passed(self) -> bool:
        """Tells whether the time is over, extended by what was spent waiting."""
        now = time.monotonic()
        if now <= self.end:
            return False
        if now >= self.latest or self.used() >= self.most_used:
            return True
        waited = max(map(waited_s, self.pids()), default=0.0)
        gained = min(waited - self.waited, now - self.looked)
        self.waited, self.looked = max(waited, self.waited), now
        self.end = now + gained
        return gained < LEAST * self.seconds


def waited_s(pid: int) -> float:
    """Returns how long the thread of a process that waited most did so."""
    longest = 0
    with contextlib.suppress(OSError, ValueError):
        for thread in Path("/proc", str(pid), "task").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                facts = Path(thread, "schedstat").read_text(encoding="utf-8").split()
                longest = max(longest, int(facts[1]))
    return longest / 1e9


def used_s(pid: int) -> float:
    with contextlib.suppress(OSError, ValueError, IndexError):
        facts = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8")
            .rpartition(")")[2]
            .split()
        )
        return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
