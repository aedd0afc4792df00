"""Keeps what XLA compiled for our solutions, so that no submission compiles it again.

JAX finds a program there by a hash of it, its compile options and jaxlib. Only our
solutions write to the folder; boxes see it read-only: with one entry replaced, a
program would compute something else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from coursekit.environment import fast_compile_flags

INSIDE = "/tmp/compiled"  # its path in a box
NEVER_S = 10**9


def variables(folder: Path | str = INSIDE, *, writes: bool = False) -> dict[str, str]:
    """Returns the variables that let JAX read, or also write, programs in a folder.

    Cache misses are compiled without optimization, like the cached programs.
    """
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        # Only what takes longer is written; a write that fails would print a warning.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": str(0 if writes else NEVER_S),
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        # XLA's own caches would make the folder's path a part of the hash.
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
        "XLA_FLAGS": " ".join(fast_compile_flags()),
    }


def find(hashes: Mapping[str, str]) -> Path:
    """Returns the path of the folder for a lesson of these `hashes` on this machine."""
    parts = processor(), fast_compile_flags(), hashes["lesson"], hashes["packages"]
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
    return Path(base) / "distributed-jax-course" / "compiled" / name


def fill(folder: Path, run: Callable[[Path], None]) -> None:
    """Lets `run` write compiled programs into a new folder, unless it exists.

    Where it cannot be written there is none: then everything is compiled each time.
    """
    if folder.is_dir():
        return
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix="part-", dir=folder.parent))
        try:
            run(part)
            for path in (part, *part.iterdir()):
                path.chmod(0o755 if path is part else 0o644)
            part.rename(folder)  # fails where another process was faster
        finally:
            shutil.rmtree(part, ignore_errors=True)


def processor() -> bytes:
    """Describes the processor: compiled programs use its particular instructions."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_bytes().split(b"\n\n")[0].splitlines()
        kept = (b"model", b"flags", b"Features", b"CPU part", b"vendor_id")
        return b"\n".join(line for line in lines if line.startswith(kept))
    return f"{platform.machine()} {platform.processor()} {platform.node()}".encode()
