"""A machine under load gives the same grades as a quiet one."""

import contextlib
import os
import subprocess
import sys

import pytest
import tiny
from classes import RIGHT, answered

from grader.containment.limits import Limits
from grader.lessons.release import dumps
from grader.results import Outcome
from grader.submissions.read_submission import parse_submission
from grader.workers.cache_key import lesson_hashes
from grader.workers.executor import grade_jobs
from grader.workers.jobs import Job
from grader.workers.local_executor import LocalExecutor

LIMITS = Limits(wall_s=2)
LOAD, LOAD_S = 10, 120  # processes that compute, and for how long at most
SPINS = """
import time
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    pass
"""
# A quarter of a second of CPU time: an eighth of the limit, and more than all of it
# while ten other processes compete for the same core, as on two with a load of 20.
COMPUTES = """\
def double(x):
    import time

    end = time.process_time() + 0.25
    while time.process_time() < end:
        pass
    return {value}"""
ANSWERS = {"right": "2 * x", "wrong": "3 * x"}


@pytest.fixture
def one_core():
    """Keeps what a test starts on one core: other tests have the rest."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture
def graded(tmp_path, contained_here, one_core):
    """Grades the submissions on one executor, as often as it is called."""
    lesson = tiny.lesson(tmp_path / "course")
    hashes = lesson_hashes(lesson, LIMITS)
    jobs = []
    for student, value in ANSWERS.items():
        sources = RIGHT | {"double": COMPUTES.format(value=value)}
        own = parse_submission(dumps(answered(lesson, **sources)).encode())
        jobs.append(Job(student, tiny.NAME, own, hashes | {"submission": student}))
    executor = LocalExecutor({tiny.NAME: lesson}, LIMITS, workers=1)

    def grade():
        found = {
            one.job.student: one.record.result for one in grade_jobs(executor, jobs)
        }
        return {
            student: [(one.outcome, one.points) for one in result.exercises]
            for student, result in found.items()
        }

    with contextlib.closing(executor):
        yield grade


@pytest.fixture
def load(one_core):
    """Starts processes that keep the core busy; they end with the test or LOAD_S."""
    started = []

    def start():
        command = [sys.executable, "-c", SPINS.format(seconds=LOAD_S)]
        # A session each: Linux may schedule by sessions.
        more = {"start_new_session": True}
        started.extend(subprocess.Popen(command, **more) for _ in range(LOAD))

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_load_changes_no_grade(graded, load):
    alone = graded()
    assert {outcome for outcome, _ in alone["right"]} == {Outcome.PASSED}
    assert alone["wrong"][0] == (Outcome.FAILED, 0)
    load()
    assert graded() == alone
