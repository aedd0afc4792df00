"""Gives each box a control group (cgroup v2), where this process may make some.

The kernel then shares out processors, memory and processes, and counts what a box used,
whatever has become of its processes. Groups are made below the group that this process
was started in: that of a container, or a scope that systemd has delegated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

from grader.containment.limits import Limits
from grader.containment.temp_dirs import is_running

CONTROLLERS = ("cpu", "memory", "pids")
LEAF = "distributed-jax-course"  # for processes of the tree itself: none may be above
PERIOD_US = 100_000
REMOVE_S = 5.0
_numbers = itertools.count()


@dataclasses.dataclass(frozen=True)
class Tree:
    """Where groups are made.

    Attributes:
        folder: the group above them; None where there can be none.
        controllers: what they limit; without any, they only count.
        problem: why there are none, or why they limit no more.
    """

    folder: Path | None = None
    controllers: tuple[str, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        if self.controllers:
            return f"control groups share out: {', '.join(self.controllers)}"
        does = "control groups count CPU time" if self.folder else "no control groups"
        return f"{does}: {self.problem}"


@functools.cache
def tree() -> Tree:
    """Finds the place for this process's groups, and makes it ready."""
    try:
        found = prepared(*own_group(Path("/proc/self")))
        remove_left_groups(found.folder)
    except OSError as error:
        found = Tree(problem=f"{error.strerror or error}")
    return found


def own_group(process: Path) -> tuple[Path, bool]:
    """Returns the group of a process, and whether it is the root of what it sees.

    Args:
        process: its folder in /proc.

    Raises:
        OSError: there is none.
    """
    lines = Path(process, "cgroup").read_text().splitlines()
    [inside] = [line[3:] for line in lines if line.startswith("0::/")] or [""]
    for line in Path(process, "mountinfo").read_text().splitlines():
        place, _, kind = line.partition(" - ")
        root, mount = place.split()[3:5]
        if kind.startswith("cgroup2 ") and inside and root == "/":
            return Path(mount + inside), inside == "/"
    raise OSError("this system has no cgroup v2")


def prepared(group: Path, is_root: bool) -> Tree:
    """Makes a group ready to hold others.

    Raises:
        OSError: this process may not.
    """
    if group.name == LEAF:  # of an earlier run from the same shell
        return prepared(group.parent, True)
    if not is_root and not is_delegated(group):
        raise OSError("this process's group is not delegated to it")
    probe = group / name_of_box()
    probe.mkdir()
    probe.rmdir()
    found = Path(group, "cgroup.controllers").read_text().split()
    chosen = tuple(name for name in CONTROLLERS if name in found)
    if not chosen:
        return Tree(group, (), "the controllers belong to cgroup v1")
    try:
        if Path(group, "cgroup.type").exists():  # all but the machine's own root
            Path(group, LEAF).mkdir(exist_ok=True)
            for process in Path(group, "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    Path(group, LEAF, "cgroup.procs").write_text(process)
        words = " ".join(f"+{name}" for name in chosen)
        Path(group, "cgroup.subtree_control").write_text(words)
    except OSError as error:
        return Tree(group, (), f"the controllers cannot be used ({error.strerror})")
    return Tree(group, chosen)


def remove_left_groups(folder: Path) -> None:
    """Removes empty groups of runs that were killed."""
    for path in folder.glob("box-*-*"):
        number = path.name.split("-")[1]
        if number.isdecimal() and not is_running(int(number)):
            with contextlib.suppress(OSError):
                path.rmdir()


def is_delegated(group: Path) -> bool:
    """Tells whether systemd has handed a group over to those who are in it."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False


def name_of_box() -> str:
    """Makes a name that no other group has."""
    return f"box-{os.getpid()}-{next(_numbers)}"


class Group:
    """The group of one box.

    Args:
        parent: where it is made.
        limits: what the box may use.
        cores: how many processors its threads may keep busy.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, parent: Tree, limits: Limits, cores: int):
        self.folder = Path(parent.folder, name_of_box())
        self.counted: dict[str, dict[str, int]] = {}  # by file, before it was removed
        self.folder.mkdir()
        try:
            for name, value in settings(limits, cores).items():
                if name.partition(".")[0] in parent.controllers:
                    Path(self.folder, name).write_text(value)
        except OSError:
            self.remove()
            raise

    def starting(self, command: list[str]) -> list[str]:
        """Lets a command start in this group."""
        script = 'echo 0 > "$0" && exec "$@"'
        return ["/bin/sh", "-c", script, str(self.folder / "cgroup.procs"), *command]

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU time of all that ever ran in it."""
        return self.facts("cpu.stat").get("usage_usec", 0) / 1e6

    @property
    def peak_mib(self) -> float:
        """The most memory that it had at a time; 0 where nobody counts."""
        return self.facts("memory.peak").get("", 0) / 2**20

    @property
    def ran_out_of_memory(self) -> bool:
        """Tells whether the kernel has killed it for its memory."""
        return self.facts("memory.events").get("oom_kill", 0) > 0

    def facts(self, name: str) -> dict[str, int]:
        """Reads one of its files: {name: number}; of a single number, under ""."""
        with contextlib.suppress(OSError, ValueError):
            lines = Path(self.folder, name).read_text().splitlines()
            pairs = (["", *line.split()][-2:] for line in lines)
            self.counted[name] = {word: int(number) for word, number in pairs}
        return self.counted.get(name, {})

    def remove(self) -> None:
        """Kills what is left in it, and removes it; what it counted stays known."""
        for name in ("cpu.stat", "memory.peak", "memory.events"):
            self.facts(name)
        with contextlib.suppress(OSError):
            Path(self.folder, "cgroup.kill").write_text("1")
        for wait_s in pauses():
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # who was killed is still ending
                time.sleep(wait_s)
            else:
                return


def pauses() -> Iterator[float]:
    """Yields ever longer times to wait, up to REMOVE_S in all."""
    wait_s, left_s = 0.001, REMOVE_S
    while left_s > 0:
        yield wait_s
        left_s, wait_s = left_s - wait_s, min(0.1, 2 * wait_s)


def settings(limits: Limits, cores: int) -> dict[str, str]:
    """Lists what is written into a group's files.

    Memory includes files in the box's private folders, which Linux counts, too.
    """
    files_mib = limits.disk_mib + limits.disk_mib // 2
    return {
        "cpu.weight": "100",
        "cpu.max": f"{cores * PERIOD_US} {PERIOD_US}",
        "memory.max": str((limits.memory_mib + files_mib) * 2**20),
        "memory.oom.group": "1",
        "pids.max": str(limits.processes),
    }


def new_group(limits: Limits) -> Group | None:
    """Makes the group of a box that starts now; None where there can be none."""
    found = tree()
    if found.folder is None:
        return None
    with contextlib.suppress(OSError):
        return Group(found, limits, len(os.sched_getaffinity(0)))
    return None
