"""Runs a trusted notebook in a process and a folder of its own, with a time limit.

Untrusted code runs in a `Session`.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from nbclient import NotebookClient
from nbformat import NotebookNode

from grader.lessons import coursekit
from grader.lessons.environment import environment

CELL_TIMEOUT_S = 120


def execute(
    notebook: NotebookNode,
    *,
    on_cell: Callable[[], None] = lambda: None,
    files: Mapping[str, str],
) -> NotebookNode:
    """Returns a copy of `notebook` with the outputs of a fresh run.

    `on_cell` is called after each code cell. The package that the notebook imports also
    holds `files`, by their path in it.

    Raises:
        CellControlSignal: a cell raises, or runs for longer than `CELL_TIMEOUT_S`.
        DeadKernelError: the process died.
    """
    notebook = copy.deepcopy(notebook)
    with tempfile.TemporaryDirectory(prefix="lesson-") as folder:
        coursekit.copy(Path(folder), more=files)
        client = NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT_S,
            record_timing=False,
            coalesce_streams=True,
            kernel_name="python3",
            extra_arguments=["--log-level=ERROR"],  # no remark on unencrypted TCP
            resources={"metadata": {"path": folder}},
            on_cell_executed=lambda **_: on_cell(),
        )
        client.execute(env=environment(folder) | {"TMPDIR": folder})
    return notebook
