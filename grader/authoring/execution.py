"""Runs a trusted notebook in a process and a folder of its own, with a time limit.

Untrusted code runs in a `Session`.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

from grader.authoring import coursekit

TIMEOUT_S = 120


def execute(
    notebook: NotebookNode,
    *,
    timeout_s: float = TIMEOUT_S,
    on_cell: Callable[[], None] = lambda: None,
    files: Mapping[str, str] | None = None,
) -> NotebookNode:
    """Returns a copy of `notebook` with the outputs of a fresh run.

    Errors become outputs. A cell over `timeout_s` is interrupted and the next one runs;
    where the kernel dies, that cell and the ones behind it have no execution count.
    `on_cell` is called after each code cell. The package that the notebook imports also
    holds `files`, by their path in it.
    """
    notebook = copy.deepcopy(notebook)
    with tempfile.TemporaryDirectory(prefix="lesson-") as folder:
        coursekit.copy(Path(folder))
        for name, text in (files or {}).items():
            path = Path(folder) / "coursekit" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
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
            # The cell that ran then has a count, but it did not finish.
            for index in running[-1:]:
                notebook.cells[index].execution_count = None
    return notebook


def error_of(cell: NotebookNode) -> NotebookNode | None:
    """Returns a cell's error output, or None."""
    return next((o for o in cell.outputs if o.output_type == "error"), None)


def environment(folder: str | Path) -> dict[str, str]:
    """Copies our environment without what changes JAX or the language of messages."""
    ours = ("XLA_", "JAX_", "COURSE_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    # A profile of the user's own could run start-up files before the lesson.
    return {**kept, "IPYTHONDIR": str(Path(folder) / ".ipython")}
