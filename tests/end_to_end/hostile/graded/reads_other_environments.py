"""Reads the environment and the command line of every process that it sees."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

LEAKED = """
import glob

PRIVATE = (b"COURSE_CORPUS_SECRET", b"PYTEST_CURRENT_TEST", b"TOKEN")
PRIVATE += (b"grader.judging.judge",)


def leaked():
    for path in glob.glob("/proc/[0-9]*/*"):
        if path.endswith(("/environ", "/cmdline")):
            try:
                with open(path, "rb") as file:
                    text = file.read()
            except OSError:
                continue
            if any(word in text for word in PRIVATE):
                return True
    return False
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
