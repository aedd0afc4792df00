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
SPARE = 3  # more per worker while processors idle
WORKER_MIB = 1000  # a learner's kernel and a judge, at their most


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

    `workers` of 0 stands for one per processor, and on this machine for three more each
    while processors idle, since submissions can sleep; but for no more than there is
    memory for, nor than `most`, the number of submissions.

    Raises:
        ContainmentError, ClusterError: it cannot be used.
    """
    if most >= WORTH_WARMING and not trusted and not scheduler:
        warm_up()
    here = scheduler in ("", LOCAL)
    spare = 0
    if here and not workers:
        can = min(room(), max(most, 1))
        workers = min(can, os.cpu_count() or 1)
        spare = min(can, (1 + SPARE) * workers) - workers
    elif here:
        workers = min(workers, max(most, 1))
    how = {"workers": workers, "trusted": trusted}
    if not scheduler:
        how["spare"] = spare
        return contextlib.closing(Grading(lessons, limits, **how))
    from grader.cluster import ClusterGrading  # Dask takes a second to import

    return contextlib.closing(ClusterGrading(lessons, limits, scheduler, **how))


def room() -> int:
    """Returns for how many workers this machine has memory: one at least."""
    return max(1, psutil.virtual_memory().available // (WORKER_MIB * 2**20))
