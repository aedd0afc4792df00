"""What the monitor of boxes finds, and what it keeps of their standard errors."""

import os
import subprocess
import sys

from grader.containment import monitor
from grader.containment.limits import Limits

FAMILY = """
import subprocess, sys
words = [sys.executable, "-c", "input()"]
with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
    print(child.pid, flush=True)
    input()
    child.stdin.close()
"""


def test_all_that_a_process_started_is_found():
    words = [sys.executable, "-c", FAMILY]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as parent:
        child = int(parent.stdout.readline())
        found = [one.pid for one in monitor.descendants(os.getpid())]
        assert found.index(parent.pid) < found.index(child)
        assert [one.pid for one in monitor.descendants(parent.pid)] == [child]
        parent.stdin.close()


def test_a_process_that_took_over_a_number_is_not_killed():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        watcher = monitor.Monitor([process.pid], Limits(memory_mib=0))
    watcher.start()  # the process has ended by now
    assert watcher.exceeded_limit() == ""
    watcher.stop()
    watcher.join()
    assert watcher.exceeded == ""


def test_the_end_of_the_standard_error_is_kept():
    reading, writing = os.pipe()
    tail = monitor.StderrTail(reading)
    tail.start()
    os.write(writing, b"x" * 1000 + b" last words \xff\n")
    os.close(writing)
    assert str(tail).endswith("last words \ufffd")
    assert len(str(tail)) <= 500
