"""The first process of a box.

It denies the system calls that no limit counts: memory outside of processes, file
systems, namespaces, other processors than it was given. Then it starts the command that
it is given, as a child, which cannot interfere with it; without one it prints "ready".
When its standard input closes, as it does however the grader ends, it ends and all of
the box with it.
"""

import ctypes
import os
import platform
import select
import signal
import struct
import sys
import threading

SET_DUMPABLE, NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 4, 38, 22, 2
# Name: (number on x86-64, number on ARM64). All others remain allowed.
DENIED = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mount": (165, 40),
    "move_mount": (429, 429),
    "msgget": (68, 186),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "semget": (64, 190),
    "setns": (308, 268),
    "shmget": (29, 194),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
# Machine: (column above, audit architecture, number of clone).
MACHINES = {"x86_64": (0, 0xC000003E, 56), "aarch64": (1, 0xC00000B7, 220)}
CLONE3, NEW_USER = 435, 0x10000000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, NOT_PERMITTED, UNKNOWN = 0x7FFF0000, 0x80000000, 0x50001, 0x50026


def seccomp_filter(machine: str) -> list[tuple[int, int, int, int]]:
    """Lists the filter's steps: (operation, skip if true, skip if false, value)."""
    column, architecture, clone = MACHINES[machine]
    steps = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 1, 0x40000000),  # the same calls, by their x32 numbers
        (RETURN, 0, 0, UNKNOWN),
        (EQUAL, 0, 1, CLONE3),  # its flags cannot be seen; the C library has clone
        (RETURN, 0, 0, UNKNOWN),
    ]
    for numbers in DENIED.values():
        steps += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, NOT_PERMITTED)]
    steps += [
        (EQUAL, 0, 3, clone),
        (LOAD, 0, 0, 16),
        (ANY_BIT, 0, 1, NEW_USER),
        (RETURN, 0, 0, NOT_PERMITTED),
        (RETURN, 0, 0, ALLOW),
    ]
    return steps


def prctl(*arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(*arguments, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl{arguments}")


def install_seccomp_filter() -> None:
    """Denies the calls above to this process and its children, for good."""
    machine = platform.machine()
    if machine not in MACHINES:
        sys.exit(f"No list of system calls for {machine}.")
    steps = b"".join(struct.pack("=HBBI", *step) for step in seccomp_filter(machine))
    buffer = ctypes.create_string_buffer(steps, len(steps))
    fprog = struct.pack("@HP", len(steps) // 8, ctypes.addressof(buffer))
    prctl(NO_NEW_PRIVILEGES, ctypes.c_ulong(1))
    prctl(SET_SECCOMP, ctypes.c_ulong(FILTER), ctypes.c_char_p(fprog))


def protect() -> None:
    """Keeps others from reading this process, and from ending it by usual signals."""
    prctl(SET_DUMPABLE, ctypes.c_ulong(0))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def copy_stdin(pipe: int) -> None:
    while block := os.read(0, 2**16):
        while block:
            block = block[os.write(pipe, block) :]


def exit_when_stdin_closes() -> None:
    end = select.poll()
    end.register(0, 0)  # no events but its end, whatever is still unread
    end.poll()
    os._exit(1)


def main(*command: str) -> None:
    install_seccomp_filter()
    if not command:
        protect()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans become its children
        os.write(1, b"ready\n")
        exit_when_stdin_closes()
    stdin, pipe = os.pipe()  # the child could keep ours open, by writing to it
    child = os.fork()
    if not child:
        os.dup2(stdin, 0)
        os.setsid()
        os.execvp(command[0], command)
    protect()
    os.close(stdin)
    threading.Thread(target=copy_stdin, args=(pipe,), daemon=True).start()
    threading.Thread(target=exit_when_stdin_closes, daemon=True).start()
    while True:
        pid, status = os.wait()  # orphans become children of a box's first process
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(*sys.argv[1:])
