"""Time that processes wait for a processor is not time that they take."""

import os

import pytest

from grader.containment import deadline
from grader.containment.deadline import LONGEST, Deadline, used_s, waited_s


@pytest.fixture
def machine(monkeypatch):
    """A machine whose clock, and what processes used and waited, a test sets."""

    class Machine:
        now = used = waited = 0.0

        def deadline(self, seconds):
            return Deadline(seconds, lambda: [1], lambda: self.used)

    machine = Machine()
    monkeypatch.setattr(deadline.time, "monotonic", lambda: machine.now)
    monkeypatch.setattr(deadline, "waited_s", lambda pid: machine.waited)
    return machine


def test_on_a_quiet_machine_the_seconds_count(machine):
    own = machine.deadline(60)
    machine.now = 60
    assert not own.has_passed()
    machine.now = 60.1
    assert own.has_passed()


def test_what_was_waited_for_a_processor_is_given_again(machine):
    own = machine.deadline(60)
    machine.now, machine.waited = 60.1, 45
    assert not own.has_passed()
    machine.now = 104
    assert not own.has_passed()
    machine.now, machine.waited = 106, 80  # 35 more
    assert not own.has_passed()
    machine.now = 142
    assert own.has_passed()  # nothing was waited since


def test_no_more_is_given_than_has_passed(machine):
    own = machine.deadline(60)
    machine.now, machine.waited = 60.1, 10_000  # by threads of earlier cells
    assert not own.has_passed()
    machine.now = 120.3
    assert own.has_passed()


def test_who_keeps_the_processors_busy_is_given_nothing(machine):
    own = machine.deadline(60)
    machine.now, machine.waited, machine.used = 60.1, 50, 61
    assert own.has_passed()


def test_there_is_an_end_on_any_machine(machine):
    own = machine.deadline(60)
    while not own.has_passed():
        machine.now += 30
        machine.waited += 30
    assert LONGEST * 60 <= machine.now <= LONGEST * 60 + 2 * 30


def test_of_a_process_that_has_ended_nothing_is_known():
    assert (waited_s(2**30), used_s(2**30)) == (0, 0)
    assert used_s(os.getpid()) > 0
    assert waited_s(os.getpid()) >= 0
