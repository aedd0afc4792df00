"""Frees the memory of compiled programs: a process that grades makes hundreds."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from pathlib import Path

import jax

from coursekit.tracing import ir_context

ENOUGH_MIB = 400  # of a process that has imported JAX and holds a lesson: 200 to 330


def free_compiled_programs() -> None:
    """Frees all compiled programs, where this process takes much memory.

    What is used again is compiled or read again. With glibc, memory that it keeps for
    later is returned to the system, too.
    """
    if resident_mib() < ENOUGH_MIB:
        return
    jax.clear_caches()
    ir_context.cache_clear()
    gc.collect()
    with contextlib.suppress(AttributeError, TypeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def resident_mib() -> float:
    """Returns how many MiB of this process are in memory; inf where nothing says it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux
        return float("inf")
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
