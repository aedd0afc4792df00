"""Runs a notebook of our own in a process, a folder and a time limit of its own.

A stranger's code runs in a `Session`.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

from grader import MODULES, ROOT

TIMEOUT_S = 120


def execute(
    notebook: NotebookNode,
    *,
    timeout_s: float = TIMEOUT_S,
    on_cell: Callable[[], None] = lambda: None,
) -> NotebookNode:
    """Returns a copy of `notebook` with the outputs of a fresh run.

    Errors become outputs. A cell over `timeout_s` is interrupted and the next one runs;
    where the kernel dies, that cell and the ones behind it have no execution count.
    `on_cell` is called after each code cell.
    """
    notebook = copy.deepcopy(notebook)
    with tempfile.TemporaryDirectory(prefix="lesson-") as folder:
        for name in MODULES:
            shutil.copy(ROOT / "lessons" / f"{name}.py", folder)
        running: list[int] = []
        client = NotebookClient(
            notebook,
            timeout=timeout_s,
            interrupt_on_timeout=True,
            allow_errors=True,
            record_timing=False,
            coalesce_streams=True,
            kernel_name="python3",
            extra_arguments=["--log-level=ERROR"],  # no remark on unencrypted TCP
            resources={"metadata": {"path": folder}},
            on_cell_start=lambda cell_index, **_: running.append(cell_index),
            on_cell_executed=lambda **_: on_cell(),
        )
        try:
            client.execute(env=environment(folder))
        except DeadKernelError:
            # The cell that ran then has a count, but it never came to its end.
            for index in running[-1:]:
                notebook.cells[index].execution_count = None
    return notebook


def error_of(cell: NotebookNode) -> NotebookNode | None:
    """Returns a cell's error output, or None."""
    return next((o for o in cell.outputs if o.output_type == "error"), None)


def environment(folder: str | Path) -> dict[str, str]:
    """The kernel's environment: ours, without what would change JAX or our words."""
    ours = ("XLA_", "JAX_", "COURSE_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    # A profile of the user's own could run start-up files in front of the lesson.
    return {**kept, "IPYTHONDIR": str(Path(folder) / ".ipython")}
