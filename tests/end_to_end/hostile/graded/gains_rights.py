"""Tries to become another user or to enter other namespaces."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

LEAKED = """
import glob
import subprocess

COMMANDS = (
    ["sudo", "-n", "true"],
    ["su", "-c", "true"],
    ["nsenter", "--target", "1", "--mount", "true"],
    ["chroot", "/proc/1/root", "true"],
    ["mount", "-o", "remount,rw", "/usr"],
)


def leaked():
    if os.getuid() == 0:
        return True
    for command in COMMANDS:
        try:
            quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            if subprocess.run(command, timeout=5, **quiet).returncode == 0:
                return True
        except (OSError, subprocess.TimeoutExpired):
            continue
    return False
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
