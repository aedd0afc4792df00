"""Leaves a process behind, in a session of its own, that outlives the kernel."""

from hostile.build import FULL, MARKER, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = f"""
import subprocess
import sys

CODE = "import time; time.sleep(60); open({MARKER!r}, 'w').close()"


def double(x):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    command = [sys.executable, "-c", CODE]
    subprocess.Popen(command, start_new_session=True, **pipes)
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
