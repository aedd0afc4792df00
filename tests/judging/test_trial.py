"""A trial ends where its submission has no time left, also within an exercise."""

import contextlib
import types

import pytest
import tiny

from grader.authoring.release import exercises, release
from grader.containment.limits import Limits
from grader.judging import trial as module
from grader.judging.trial import Trial
from grader.kernel.session import CellResult
from grader.results import Outcome

QUESTIONS = 55  # that a check asks


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return tiny.lesson(tmp_path_factory.mktemp("course") / "course")


class Judge:
    """Asks each exercise many questions, until one gets no answer."""

    material = dict.fromkeys(("setup", "definitions", "functions", "checks"))

    def check(self, name, ask, to_beat):
        for _ in range(QUESTIONS):
            if "ended" in ask({"function": name}):
                return {"verdict": "TIMED_OUT", "message": "", "ended": "timed out"}
        found = {"verdict": "PASSED", "message": "", "share": 1.0}
        return found | {"statements": [], "details": []}


@pytest.mark.parametrize("spends", ["time", "processors"])
def test_the_time_of_a_submission_is_checked_within_an_exercise(
    lesson, monkeypatch, spends
):
    """Each call of the function takes 1.8 s, far less than a call may take."""
    answered = release(lesson)
    exercises(answered)["double"].source = "def double(x):\n    return x + x"
    limits = Limits(total_s=25 if spends == "time" else 1800, total_cpu_s=25)
    trial = Trial(answered, lesson, Judge(), limits)
    clock = types.SimpleNamespace(now=trial.begun)

    class Session:
        ended, cpu_s = "", 0.0

        def run(self, code, wall_s=None, silent=False):
            clock.now += 1.8 * silent * (spends == "time")
            self.cpu_s += 1.8 * silent * (spends == "processors")
            return CellResult(replies=["{}"] if silent else [])

    @contextlib.contextmanager
    def session():
        trial.sessions += 1
        one = Session()
        yield one
        trial.cpu_s += one.cpu_s

    monkeypatch.setattr(trial, "session", session)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    found = trial.run()["double"]
    assert found.outcome is Outcome.TIMED_OUT and found.share == 0
    assert found.message.startswith("Not finished: the submission took more than")
    assert [*trial.limits_hit] == ["time of the whole submission"]
    assert clock.now - trial.begun + trial.cpu_s <= 25 + 1.8
