"""Folders of one run, which a later run removes where a kill left them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

KINDS = ("box", "learner", "fork-server")
OURS = re.compile(rf"(?:{'|'.join(KINDS)})-(\d+)-\w{{8}}")
OLD_S = 24 * 3600.0  # seconds; a container that shares the folder has other processes


def prefix(kind: str) -> str:
    """Begins the name of a folder of this process; `kind` is one of KINDS."""
    return f"{kind}-{os.getpid()}-"


def remove_left_folders() -> list[Path]:
    """Removes folders that ended runs of this user left a day ago or more.

    Returns what is gone now.
    """
    removed = []
    for path in Path(tempfile.gettempdir()).glob("*-*-*"):
        with contextlib.suppress(OSError):
            found, status = OURS.fullmatch(path.name), path.lstat()
            is_old = time.time() - status.st_mtime > OLD_S
            is_own = path.is_dir() and not path.is_symlink()
            is_own = is_own and status.st_uid == os.getuid()
            if found and is_own and is_old and not is_running(int(found[1])):
                shutil.rmtree(path)
                removed.append(path)
    return removed


def is_running(process: int) -> bool:
    """Tells whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # another user's; no number of a process
        return True
    return True
