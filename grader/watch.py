"""Watches over what a box uses in all and says, from outside of it."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import zmq

from grader.containment import Limits

INTERVAL_S = 0.25
FRESH_S = 0.2
IDLE_MS = 100
MAX_SOCKETS = 1000  # each holds up to 400 kB
MAX_ENTRIES, MAX_BYTES = 40, 2**22  # a connection folder holds seven small files


class Words(threading.Thread):
    """Reads what a box says on its standard error, of which it keeps the end.

    A pipe that nobody reads would stop a kernel that says a lot.
    """

    def __init__(self, pipe: int):
        super().__init__(daemon=True, name=f"words-{pipe}")
        self.pipe, self.last = pipe, b""

    def run(self) -> None:
        """Reads until the last process that could write has ended."""
        with open(self.pipe, "rb", buffering=0) as pipe:
            while block := pipe.read(2**16):
                self.last = (self.last + block)[-500:]

    def __str__(self) -> str:
        self.join(timeout=1)
        return self.last.decode(errors="replace").strip()


class Watch(threading.Thread):
    """Kills a box that uses too much in total, which no limit on one process sees.

    Args:
        pids: the box's process first, then others whose children are in it.
        folder: where the kernel's sockets lie.
        limits: what all may use together.

    Attributes:
        exceeded: the limit that the box ran over, in plain words, or "".
    """

    def __init__(self, pids: Sequence[int], folder: Path, limits: Limits):
        super().__init__(daemon=True, name=f"watch-{pids[0]}")
        self.process = psutil.Process(pids[0])
        self.others = []
        with contextlib.suppress(psutil.Error):  # one that has ended has no children
            self.others += map(psutil.Process, pids[1:])
        self.folder, self.limits = folder, limits
        self.exceeded = ""
        self.ended = threading.Event()

    def run(self) -> None:
        """Looks again and again until the box ends or uses too much."""
        while not self.ended.wait(INTERVAL_S):
            with contextlib.suppress(psutil.Error, OSError):
                self.exceeded = self.look()
                if self.exceeded:
                    self.process.kill()
                    return

    def look(self) -> str:
        """Names the limit that the box is over, or returns ""."""
        limits, tops = self.limits, [self.process, *self.others]
        processes = below([top.pid for top in tops if top.is_running()])
        most = limits.memory_mib * 2**20
        # At first, what processes share counts in each of them: that is quick to know.
        if memory(processes) > most and memory(processes, exact=True) > most:
            return f"memory: more than {limits.memory_mib} MiB"
        if files(processes) > limits.files:
            return f"disk: more than {limits.files} files"
        if sockets(processes) > MAX_SOCKETS:
            return f"memory: more than {MAX_SOCKETS} sockets"
        entries, size = contents(self.folder)
        if entries > MAX_ENTRIES or size > MAX_BYTES:
            return "disk: files where only the kernel's sockets belong"
        return ""

    def stop(self) -> None:
        """Ends the watch."""
        self.ended.set()


class Listener(threading.Thread):
    """Reads what a kernel publishes, so that it cannot pile up in this process.

    Attributes:
        messages: the messages, each a list of frames.
        too_much: whether there were more than `most` bytes, for which it calls `kill`.
        cut: whether the connection is: by the kernel, or for a message over the limit.
    """

    def __init__(self, socket: zmq.Socket, most: int, kill: Callable[[], None]):
        super().__init__(daemon=True, name="listener")
        self.socket, self.most, self.kill = socket, most, kill
        self.messages: queue.Queue[list[bytes]] = queue.Queue()
        self.too_much = self.cut = False
        self.ended = threading.Event()
        self.events = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)

    def run(self) -> None:
        """Reads until it is stopped or has read too much."""
        received, poller = 0, zmq.Poller()
        poller.register(self.socket, zmq.POLLIN)
        poller.register(self.events, zmq.POLLIN)
        while not self.ended.is_set() and not self.too_much:
            ready = dict(poller.poll(IDLE_MS))
            if self.socket in ready:
                frames = self.socket.recv_multipart()
                received += sum(map(len, frames))
                self.too_much = received > self.most
                self.messages.put(frames)
            elif self.events in ready:
                self.events.recv_multipart()
                self.cut = True
        if self.too_much:
            self.kill()

    def stop(self) -> None:
        """Stops reading; the socket may be closed then."""
        self.ended.set()
        self.join()
        self.events.close(linger=0)


_seen: dict[int, list[psutil.Process]] = {}
_seen_at = -FRESH_S
_one_at_a_time = threading.Lock()


def children() -> dict[int, list[psutil.Process]]:
    """Maps processes of this machine to their children, as of a moment ago.

    Each look reads all of `/proc`, so one serves the watches of all boxes.
    """
    global _seen, _seen_at
    with _one_at_a_time:
        if time.monotonic() - _seen_at >= FRESH_S:
            _seen, _seen_at = {}, time.monotonic()
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    _seen.setdefault(process.ppid(), []).append(process)
        return _seen


def below(pids: Sequence[int]) -> list[psutil.Process]:
    """Lists what these processes have started, and what that has started."""
    known, found = children(), []
    for pid in pids:
        todo = known.get(pid, [])
        while todo:
            found += todo
            todo = [child for one in todo for child in known.get(one.pid, [])]
    return found


def memory(processes: list[psutil.Process], exact: bool = False) -> int:
    """Adds up resident memory; with `exact`, what is shared counts once."""
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
    """Counts the sockets in a box: what they hold is no process's memory."""
    with contextlib.suppress(OSError):
        for first in processes[:1]:
            facts = Path(f"/proc/{first.pid}/net/sockstat").read_text()
            return int(facts.split()[2])
    return 0


def contents(folder: Path) -> tuple[int, int]:
    """Counts a folder's entries and their bytes, but not much above `MAX_ENTRIES`."""
    entries = size = 0
    todo = [str(folder)]
    while todo and entries <= MAX_ENTRIES:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as found:
            for entry in found:
                entries += 1
                if entries > MAX_ENTRIES:
                    break
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
    return entries, size
