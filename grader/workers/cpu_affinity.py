"""Gives each worker a CPU of its own: what it grades runs faster there.

The threads of a simulated mesh wait for each other all the time, and a learner's kernel
for its judge. Between CPUs that costs more than it gains.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket

NAME = "\0distributed-jax-course-processor-{}"  # of a socket, gone with who holds it


def pin_thread(claims: contextlib.ExitStack) -> None:
    """Binds this thread, and what it starts from now on, to a CPU of its own.

    Until `claims` is closed no other worker on this machine gets that CPU. Workers in
    different containers do not see each other's claims, so CPUs are tried in random
    order. Where none is left, or the system cannot bind threads, nothing changes.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    free = os.sched_getaffinity(0)
    for number in random.sample([*free], len(free)):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(NAME.format(number))
            os.sched_setaffinity(0, {number})
        except OSError:
            claim.close()
        else:
            claims.enter_context(claim)
            return
