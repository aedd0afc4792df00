"""Opens its ancestors' memory: by /proc, by a thread's /proc, and by a system call."""

from hostile.build import NOTHING, attack, leak

POINTS = NOTHING | {"negate": 4}

LEAKED = """
import ctypes
import glob

RAN = set()


def leaked():
    library, buffer = ctypes.CDLL(None), ctypes.create_string_buffer(8)
    part = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    for process in {os.getppid(), 1} - {0, os.getpid()}:
        for path in glob.glob(f"/proc/{process}/task/*/mem") + [f"/proc/{process}/mem"]:
            RAN.add("files")
            try:
                with open(path, "r+b"):
                    return True
            except OSError:
                pass
        for call in (library.process_vm_readv, library.process_vm_writev):
            RAN.add("calls")
            if call(process, part, 1, part, 1, 0) != -1:
                return True
    return False
"""


def submission(lesson):
    return attack(lesson, "negate", "files calls", double=leak(LEAKED))
