"""Attaches itself to its parent as a debugger does."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

LEAKED = """
import ctypes

PTRACE_ATTACH, PTRACE_DETACH = 16, 17


def leaked():
    library = ctypes.CDLL(None, use_errno=True)
    for process in {os.getppid(), 1} - {0, os.getpid()}:
        if library.ptrace(PTRACE_ATTACH, process, 0, 0) == 0:
            library.ptrace(PTRACE_DETACH, process, 0, 0)
            return True
    return False
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
