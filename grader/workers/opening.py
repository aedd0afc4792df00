"""Opens an executor: on this machine, or on a Dask cluster."""

from __future__ import annotations

import contextlib

from nbformat import NotebookNode

from grader.containment.limits import Limits
from grader.kernel.learner_box import MIN_JOBS_FOR_FORK_SERVER, start_fork_server
from grader.workers.executor import Executor
from grader.workers.local_executor import LocalExecutor, default_workers


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

    `workers` of 0 stands for what `default_workers` says of this machine, or for all
    workers of a cluster. Never more than `most`, the number of submissions.

    Raises:
        ContainmentError, ClusterError: it cannot be used.
    """
    if most >= MIN_JOBS_FOR_FORK_SERVER and not trusted and not scheduler:
        start_fork_server()
    spare = 0
    if scheduler in ("", "local"):
        if workers:
            workers = min(workers, max(most, 1))
        else:
            workers, spare = default_workers(most)
    how = {"workers": workers, "trusted": trusted}
    if not scheduler:
        return contextlib.closing(LocalExecutor(lessons, limits, spare=spare, **how))
    from grader.workers.dask_executor import DaskExecutor  # Dask imports for a second

    return contextlib.closing(DaskExecutor(lessons, limits, scheduler, **how))
