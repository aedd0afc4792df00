"""Enters other processes' root, working folder and open files by way of /proc."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

LEAKED = """
import glob

KINDS = (".py", ".ipynb", ".db")


def leaked():
    found = []
    for folder in glob.glob("/proc/[0-9]*/root") + glob.glob("/proc/[0-9]*/cwd"):
        inside = [folder + place for place in ("/work", "/root", "/home", "/srv")]
        found += [p for p in files(*inside, most=5000) if p.endswith(KINDS)]
    for handle in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(handle).endswith(KINDS):
                found.append(handle)
        except OSError:
            continue
    return any(map(holds_needle, found))
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
