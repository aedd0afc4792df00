"""Workers that grade side by side, each on a processor of its own."""

import os
import subprocess
import sys
import threading

import pytest

from grader import ROOT, processors
from grader.containment import Limits
from grader.processors import own_processor
from grader.session import Session

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="Linux binds threads to processors"
)
SHOW = "import os; print(*os.sched_getaffinity(0))"


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """Names of claims that no grading beside this test uses."""
    monkeypatch.setattr(processors, "NAME", f"\0test-{os.getpid()}-{{}}")


def side_by_side(count, act):
    """Lets `count` threads hold a processor at the same time; returns what they do."""
    seen, all_here = [], threading.Barrier(count, timeout=60)

    def hold():
        with own_processor():
            all_here.wait()
            seen.append(act())
            all_here.wait()

    threads = [threading.Thread(target=hold) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def test_no_two_have_the_same_and_all_go_back():
    whole = os.sched_getaffinity(0)
    count = min(len(whole), 4)
    for _ in range(2):  # what was held is free again
        seen = side_by_side(count, lambda: tuple(os.sched_getaffinity(0)))
        assert len({*seen}) == count
        assert {*seen} <= {(number,) for number in whole}
    with own_processor():
        pass
    assert os.sched_getaffinity(0) == whole


def test_where_none_is_left_nothing_changes():
    whole = os.sched_getaffinity(0)
    seen = side_by_side(len(whole) + 1, lambda: os.sched_getaffinity(0))
    assert whole in seen


def test_another_process_does_not_get_it_either():
    whole = os.sched_getaffinity(0)
    code = f"""
import os
from grader import processors
processors.NAME = {processors.NAME!r}
os.sched_setaffinity(0, {whole})
with processors.own_processor():
    print(*os.sched_getaffinity(0))
"""
    with own_processor():
        [ours] = os.sched_getaffinity(0)
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    [theirs] = map(int, done.stdout.split())
    assert theirs != ours or len(whole) == 1


def test_a_learners_kernel_runs_where_its_worker_does(contained_here):
    with Session(Limits()), own_processor():  # the first one starts cold
        [ours] = os.sched_getaffinity(0)
        with Session(Limits()) as session:
            assert session.run(SHOW).text.split() == [str(ours)]
