"""Opens an executor: on this machine, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import os

import psutil
from nbformat import NotebookNode

from grader.containment.limits import Limits
from grader.kernel.provisioner import WORTH_FORK_SERVER, start_fork_server
from grader.workers.executor import Executor
from grader.workers.local_executor import LocalExecutor

SPARE = 3  # more jobs per worker while CPUs idle
WORKER_MIB = 1000  # a learner's kernel and a judge, at their most


def open_executor(
    lessons: dict[str, NotebookNode],
    limits: Limits,
    scheduler: str,
    *,
    workers: int,
    most: int,
    trusted: bool,
) -> contextlib.closing[Executor]:
    """Opens what grades: this machine, or a Dask cluster by its scheduler's address.

    `workers` of 0 stands for one per CPU, and on this machine for three more jobs each
    while CPUs idle, since submissions can sleep; but for no more than there is memory
    for, nor than `most`, the number of submissions.

    Raises:
        ContainmentError, ClusterError: it cannot be used.
    """
    if most >= WORTH_FORK_SERVER and not trusted and not scheduler:
        start_fork_server()
    here = scheduler in ("", "local")
    spare = 0
    if here and not workers:
        can = min(workers_in_memory(), max(most, 1))
        workers = min(can, os.cpu_count() or 1)
        spare = min(can, (1 + SPARE) * workers) - workers
    elif here:
        workers = min(workers, max(most, 1))
    how = {"workers": workers, "trusted": trusted}
    if not scheduler:
        return contextlib.closing(LocalExecutor(lessons, limits, spare=spare, **how))
    from grader.workers.dask_executor import DaskExecutor  # Dask imports for a second

    return contextlib.closing(DaskExecutor(lessons, limits, scheduler, **how))


def workers_in_memory() -> int:
    """Returns for how many workers this machine has memory: one at least."""
    return max(1, psutil.virtual_memory().available // (WORKER_MIB * 2**20))
