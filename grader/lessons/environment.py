"""The environment of a process that runs a lesson's code."""

from __future__ import annotations

import os
from pathlib import Path


def environment(folder: str | Path) -> dict[str, str]:
    """Copies our environment without what changes JAX or the language of messages."""
    settings = ("XLA_", "JAX_", "COURSE_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(settings)}
    # A profile of the user's could run start-up files before the lesson.
    return {**kept, "IPYTHONDIR": str(Path(folder) / ".ipython")}
