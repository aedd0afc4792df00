"""What runs on the workers of a Dask cluster, which share nothing with who asks."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any

import nbformat
from nbformat import NotebookNode

from grader.containment import ContainmentError, Limits, backend
from grader.grading import Grading, Worker
from grader.intake import Intake
from grader.jobs import Job
from grader.processors import own_processor
from grader.results import to_json
from grader.store import lesson_hashes

_own = threading.local()
_all: list[Worker] = []


def facts_here() -> dict[str, str]:
    """Hashes this process's grader and packages; says why it cannot contain, or ""."""
    hashes = lesson_hashes(nbformat.v4.new_notebook(), Limits())
    problem = ""
    try:
        backend()
    except ContainmentError as error:
        problem = str(error)
    return {
        "version of the course": hashes["grader"],
        "set of packages": hashes["packages"],
        "problem": problem,
    }


def rest() -> None:
    """Ends this process's judges; later jobs start them anew."""
    for worker in _all:
        worker.close()


def own_worker(
    facts: dict[str, Any], name: str, lesson: NotebookNode, limits: Limits
) -> Worker:
    """Returns this thread's worker, with the judge that it has of this lesson."""
    needs = [facts["hashes"]["lesson"], facts["hashes"]["grader"], facts["trusted"]]
    if facts["bound"] and not hasattr(_own, "processor"):
        _own.processor = contextlib.ExitStack()
        _own.processor.enter_context(own_processor())  # to the end of this process
    if getattr(_own, "needs", None) != needs:
        if hasattr(_own, "worker"):
            _own.worker.close()
            _all.remove(_own.worker)
        grading = Grading({name: lesson}, limits, trusted=facts["trusted"])
        _own.needs, _own.worker = needs, Worker(grading)
        _all.append(_own.worker)
    _own.worker.grading.jobs[name] = facts["count"]
    return _own.worker


def grade_there(task: str) -> str:
    """Grades one submission on a worker.

    Args:
        task: as `ClusterGrading.task` writes it.

    Returns:
        JSON: {"result": as `to_json` writes it, "seconds", "error"}.
    """
    facts = json.loads(task)
    name, lesson = facts["name"], nbformat.reads(facts["lesson"], 4)
    limits = Limits(**facts["limits"])
    hashes = lesson_hashes(lesson, limits)
    if hashes.items() - facts["hashes"].items():
        error = "This worker has another version of the course, or other packages."
        return json.dumps({"error": error})
    worker = own_worker(facts, name, lesson, limits)
    notebook = facts["notebook"] and nbformat.from_dict(facts["notebook"])
    submitted = Intake(notebook, tuple(facts["notes"]), tuple(facts["reasons"]))
    done = worker.grade(Job("", name, submitted, facts["hashes"]))
    if done.record is None:
        return json.dumps({"error": done.error})
    result, seconds = to_json(done.record.result), done.record.seconds
    return json.dumps({"result": result, "seconds": seconds, "error": ""})
