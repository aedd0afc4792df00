"""Workers that grade side by side, each on a processor of its own."""

import contextlib
import os
import subprocess
import sys
import threading

import pytest

from grader import ROOT
from grader.containment.limits import Limits
from grader.kernel.session import Session
from grader.workers import cpu_affinity
from grader.workers.cpu_affinity import pin_thread

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="Linux binds threads to processors"
)
SHOW = "import os; print(*os.sched_getaffinity(0))"


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """Names of claims that no grading beside this test uses."""
    monkeypatch.setattr(cpu_affinity, "NAME", f"\0test-{os.getpid()}-{{}}")


def side_by_side(count, act):
    """Lets `count` threads hold a processor at the same time; returns what they do."""
    seen, all_here = [], threading.Barrier(count, timeout=60)

    def hold(claims):
        pin_thread(claims)
        all_here.wait()
        seen.append(act())
        all_here.wait()

    with contextlib.ExitStack() as claims:
        run_threads(hold, claims, count)
    return seen


def run_threads(hold, claims, count):
    threads = [threading.Thread(target=hold, args=(claims,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_no_two_have_the_same_and_all_go_back():
    whole = os.sched_getaffinity(0)
    count = min(len(whole), 4)
    for _ in range(2):  # what was held is free again
        seen = side_by_side(count, lambda: tuple(os.sched_getaffinity(0)))
        assert len({*seen}) == count
        assert {*seen} <= {(number,) for number in whole}
    assert os.sched_getaffinity(0) == whole


def test_where_none_is_left_nothing_changes():
    whole = os.sched_getaffinity(0)
    seen = side_by_side(len(whole) + 1, lambda: os.sched_getaffinity(0))
    assert whole in seen


def test_another_process_does_not_get_it_either():
    whole = os.sched_getaffinity(0)
    code = f"""
import contextlib, os
from grader.workers import cpu_affinity
cpu_affinity.NAME = {cpu_affinity.NAME!r}
with contextlib.ExitStack() as claims:
    cpu_affinity.pin_thread(claims)
    print(*os.sched_getaffinity(0))
"""

    def other():
        words = ["taskset", "-c", ",".join(map(str, whole)), sys.executable, "-c", code]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        return os.sched_getaffinity(0), done.stdout

    [(ours, said)] = side_by_side(1, other)
    [ours], [theirs] = ours, map(int, said.split())
    assert theirs != ours or len(whole) == 1


def test_a_learners_kernel_runs_where_its_worker_does(contained_here):
    def act():
        with Session(Limits()) as session:
            return os.sched_getaffinity(0), session.run(SHOW).text

    with Session(Limits()):  # the first one starts without the fork server
        [(ours, text)] = side_by_side(1, act)
    assert len(ours) == 1 and {*map(int, text.split())} == ours
