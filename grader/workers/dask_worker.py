"""What runs on the workers of a Dask cluster, which share nothing with who asks."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any

import nbformat
from nbformat import NotebookNode

from grader.containment.backend import backend
from grader.containment.limits import ContainmentError, Limits
from grader.kernel.learner_box import start_fork_server
from grader.results import to_json
from grader.submissions.read_submission import SubmittedFile
from grader.workers.cache_key import lesson_hashes
from grader.workers.cpu_affinity import pin_thread
from grader.workers.job_grader import JobGrader
from grader.workers.jobs import Job

_lock = threading.Lock()
_grader: tuple[Any, JobGrader] | None = None  # of one lesson, with what it was made for
_thread = threading.local()
_pinned = contextlib.ExitStack()  # to the end of this process


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


def close_judges() -> None:
    """Ends this process's judges; later jobs start them anew."""
    global _grader
    if _grader:
        _grader[1].close()
    _grader = None


def grader_for(
    facts: dict[str, Any], lesson: NotebookNode, limits: Limits
) -> JobGrader:
    """Returns this process's grader of a lesson, with the judges that it has."""
    global _grader
    made_for = (facts["hashes"]["lesson"], facts["hashes"]["grader"], facts["trusted"])
    with _lock:
        if _grader is None or _grader[0] != made_for:
            close_judges()
            lessons = {facts["name"]: lesson}
            _grader = made_for, JobGrader(lessons, limits, trusted=facts["trusted"])
        return _grader[1]


def grade_there(task: str) -> str:
    """Grades one submission on a worker.

    Args:
        task: as `DaskExecutor.task` writes it.

    Returns:
        JSON: {"result": as `to_json` writes it, "seconds", "used", "error"}.
    """
    facts = json.loads(task)
    name, lesson = facts["name"], nbformat.reads(facts["lesson"], 4)
    limits = Limits(**facts["limits"])
    hashes = lesson_hashes(lesson, limits)
    if hashes.items() - facts["hashes"].items():
        error = "This worker has another version of the course, or other packages."
        return json.dumps({"error": error})
    if facts["pin"] and not hasattr(_thread, "pinned"):
        _thread.pinned = True
        pin_thread(_pinned)
    grader = grader_for(facts, lesson, limits)
    notebook = facts["notebook"] and nbformat.from_dict(facts["notebook"])
    submitted = SubmittedFile(notebook, tuple(facts["notes"]), tuple(facts["reasons"]))
    job = Job("", name, submitted, facts["hashes"])
    try:
        if facts["prepare"]:  # there is much to grade
            if not facts["trusted"]:
                start_fork_server()
            grader.fill_cache(job)
        record = grader.grade(job)
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}"[:500]})
    facts = {"seconds": record.seconds, "used": dict(record.used), "error": ""}
    return json.dumps({"result": to_json(record.result), **facts})
