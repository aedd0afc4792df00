"""Gives each box a control group (cgroup v2), where this process may make some.

Linux then shares out processors, memory and processes among boxes, and counts what each
has used, processes that have ended included. Groups are made below the group that this
process was started in: that of a container, or a scope that systemd has delegated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import secrets
import time
from pathlib import Path

from grader.containment.limits import Limits

CONTROLLERS = ("cpu", "memory", "pids")
LEAF = "distributed-jax-course"  # for processes of the tree itself: none may be above
PERIOD_US = 100_000
REMOVE_S = 5.0


@dataclasses.dataclass(frozen=True)
class Tree:
    """Where groups are made."""

    text: str  # what they do here, or why there are none
    folder: Path | None = None  # the group above them
    controllers: tuple[str, ...] = ()  # without any, groups only count

    def __str__(self) -> str:
        return self.text


@functools.cache
def tree() -> Tree:
    """Finds where this process can make groups, and prepares the place."""
    try:
        return prepared(*own_group(Path("/proc/self")))
    except OSError as error:
        return Tree(f"no control groups: {error.strerror or error}")


def own_group(process: Path) -> tuple[Path, bool]:
    """Returns a process's group, and whether that is the root of all that it sees."""
    lines = Path(process, "cgroup").read_text(encoding="utf-8").splitlines()
    [inside] = [line[3:] for line in lines if line.startswith("0::/")] or [""]
    for line in Path(process, "mountinfo").read_text(encoding="utf-8").splitlines():
        place, _, kind = line.partition(" - ")
        root, mount = place.split()[3:5]
        if kind.startswith("cgroup2 ") and inside and root == "/":
            return Path(mount + inside), inside == "/"
    raise OSError("this system has no cgroup v2")


def prepared(group: Path, is_root: bool) -> Tree:
    """Makes a group ready to hold others; an OSError says why this process may not."""
    if group.name == LEAF:  # of an earlier run from the same shell
        return prepared(group.parent, True)
    if not is_root and not is_delegated(group):
        raise OSError("this process's group is not delegated to it")
    probe = group / f"box-{secrets.token_hex(8)}"
    probe.mkdir()
    probe.rmdir()
    found = Path(group, "cgroup.controllers").read_text(encoding="utf-8").split()
    chosen = tuple(name for name in CONTROLLERS if name in found)
    only = "control groups count CPU time"
    if not chosen:
        return Tree(f"{only}: the controllers belong to cgroup v1", group)
    try:
        if Path(group, "cgroup.type").exists():  # all but the machine's own root
            Path(group, LEAF).mkdir(exist_ok=True)
            for process in (
                Path(group, "cgroup.procs").read_text(encoding="utf-8").split()
            ):
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    Path(group, LEAF, "cgroup.procs").write_text(
                        process, encoding="utf-8"
                    )
        words = " ".join(f"+{name}" for name in chosen)
        Path(group, "cgroup.subtree_control").write_text(words, encoding="utf-8")
    except OSError as error:
        problem = f"the controllers cannot be used ({error.strerror})"
        return Tree(f"{only}: {problem}", group)
    return Tree(f"control groups share out: {', '.join(chosen)}", group, chosen)


def is_delegated(group: Path) -> bool:
    """Tells whether systemd has handed a group over to those who are in it."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False


class Group:
    """The group of one box, whose threads may keep so many `cores` busy."""

    def __init__(self, parent: Tree, limits: Limits, cores: int):
        self.folder = parent.folder / f"box-{secrets.token_hex(8)}"
        self.counted: dict[str, int] = {}
        # Linux counts files in the box's private folders as memory, too.
        most_mib = limits.memory_mib + limits.disk_mib + limits.disk_mib // 2
        settings = {
            "cpu.weight": "100",
            "cpu.max": f"{cores * PERIOD_US} {PERIOD_US}",
            "memory.max": str(most_mib * 2**20),
            "memory.oom.group": "1",
            "pids.max": str(limits.processes),
        }
        self.folder.mkdir()
        try:
            for name, value in settings.items():
                if name.partition(".")[0] in parent.controllers:
                    Path(self.folder, name).write_text(value, encoding="utf-8")
        except OSError:
            self.folder.rmdir()
            raise

    def starting(self, command: list[str]) -> list[str]:
        script = 'echo 0 > "$0" && exec "$@"'
        return ["/bin/sh", "-c", script, str(self.folder / "cgroup.procs"), *command]

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU time of all that ever ran in it."""
        return self.count("cpu.stat", "usage_usec") / 1e6

    @property
    def ran_out_of_memory(self) -> bool:
        return self.count("memory.events", "oom_kill") > 0

    def count(self, file: str, word: str) -> int:
        """Reads the number after a word; what was read last once the group is gone."""
        with contextlib.suppress(OSError):
            for line in (
                Path(self.folder, file).read_text(encoding="utf-8").splitlines()
            ):
                if line.startswith(f"{word} "):
                    self.counted[file] = int(line.split()[1])
        return self.counted.get(file, 0)

    def remove(self) -> None:
        """Kills what is left in it, and removes it; what it counted stays known."""
        _ = self.cpu_s, self.ran_out_of_memory
        with contextlib.suppress(OSError):
            Path(self.folder, "cgroup.kill").write_text("1", encoding="utf-8")
        latest = time.monotonic() + REMOVE_S
        while self.folder.exists() and time.monotonic() < latest:
            with contextlib.suppress(OSError):  # processes that were killed still end
                self.folder.rmdir()
            time.sleep(0.002)


def new_group(limits: Limits) -> Group | None:
    """Makes the group of a box that starts now; None where there can be none."""
    found = tree()
    if found.folder:
        with contextlib.suppress(OSError):
            return Group(found, limits, len(os.sched_getaffinity(0)))
    return None
