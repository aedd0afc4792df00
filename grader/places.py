"""Opens the place where submissions are graded: this machine, or a Dask cluster."""

from __future__ import annotations

import contextlib
import os

import psutil
from nbformat import NotebookNode

from grader.containment import Limits
from grader.grading import Grading
from grader.provisioner import WORTH_WARMING, warm_up

LOCAL = "local"  # a cluster of this machine's processes
WORKER_MIB = 1200  # a learner's kernel and a judge


def prepare(scheduler: str, *, most: int, trusted: bool) -> None:
    """Begins with what takes a while, for `most` submissions, where that pays."""
    if most >= WORTH_WARMING and not trusted and not scheduler:
        warm_up()


def open_grading(
    lessons: dict[str, NotebookNode],
    limits: Limits,
    scheduler: str,
    *,
    workers: int,
    most: int,
    trusted: bool,
) -> contextlib.closing[Grading]:
    """Opens what grades: this machine, or a Dask cluster by its scheduler's address.

    `workers` of 0 stands for as many as there is room for, but for no more than `most`,
    the number of submissions.

    Raises:
        ContainmentError, ClusterError: it cannot be used.
    """
    here = scheduler in ("", LOCAL)
    workers = min(workers or default_workers(), max(most, 1)) if here else workers
    how = {"workers": workers, "trusted": trusted}
    if not scheduler:
        return contextlib.closing(Grading(lessons, limits, **how))
    from grader.cluster import ClusterGrading  # Dask takes a second to import

    return contextlib.closing(ClusterGrading(lessons, limits, scheduler, **how))


def default_workers() -> int:
    """Returns how many submissions this machine can grade side by side."""
    room = psutil.virtual_memory().available // (WORKER_MIB * 2**20)
    return max(1, min(os.cpu_count() or 1, room))
