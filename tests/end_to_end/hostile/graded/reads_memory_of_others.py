"""Reads other processes' memory, as a debugger does, and searches it."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

LEAKED = """
import glob


def memory(process):
    with open(f"{process}/maps") as maps, open(f"{process}/mem", "rb") as file:
        for line in maps:
            first, last = (int(n, 16) for n in line.split()[0].split("-"))
            if line.split()[-1] in ("[heap]", "[stack]"):
                file.seek(first)
                yield file.read(min(last - first, 2**24))


def leaked():
    words = (NEEDLE, b"COURSE_CORPUS_" + b"SECRET=")
    for process in glob.glob("/proc/[0-9]*"):
        if process == f"/proc/{os.getpid()}":
            continue
        try:
            if any(word in part for part in memory(process) for word in words):
                return True
        except (OSError, ValueError):
            continue
    return False
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
