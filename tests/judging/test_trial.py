"""A trial ends in time, and tries again only what another cell may have spoiled."""

import contextlib
import copy
import types

import nbformat
import pytest
import tiny

from grader.containment.limits import Limits
from grader.judging import trial as module
from grader.judging.trial import Trial
from grader.kernel.session import CellResult, SessionEnded
from grader.lessons.release import exercises, release
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


class Reader:
    """Asks, for each exercise, the learner's process and then a clean one."""

    material = dict.fromkeys(("setup", "definitions", "functions", "checks"))

    def __init__(self, crashes=""):
        self.ended, self.crashes = {}, crashes

    def check(self, name, ask, to_beat):
        function = "crash" if name == self.crashes else name
        replies = [ask({"function": name, "clean": False})]
        replies += [ask({"function": function, "clean": True})]
        self.ended[name] = [reply.get("ended") for reply in replies]
        found = {"verdict": "PASSED", "message": "", "share": 1.0}
        return found | {"statements": [], "details": []}


@pytest.fixture
def sessions(monkeypatch):
    """Lists the cells that each session of a trial has run, by its start."""
    started = []

    class Session:
        def __init__(self, limits, **options):
            self.cells, self.ended, self.cpu_s = [], "", 1.0
            started.append(self.cells)

        def run(self, code, wall_s=None, silent=False):
            self.cells.append(code)
            if "crash" in code:
                self.ended = "died"
                raise SessionEnded("died")
            return CellResult(replies=["{}"] if silent else [])

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(module, "Session", Session)
    return started


def test_a_clean_question_goes_to_a_session_without_the_learner_s_cells(
    lesson, sessions
):
    answered = release(lesson)
    exercises(answered)["double"].source = "def double(x):\n    return x + x"
    judge = Reader()
    trial = Trial(answered, lesson, judge, Limits())
    found = trial.run()
    assert found["double"].outcome is Outcome.PASSED
    assert judge.ended["double"] == [None, None]
    learner, clean = sessions
    assert any("x + x" in cell for cell in learner)
    assert not any("x + x" in cell for cell in clean)
    assert [cell for cell in clean if "answer(" in cell] == clean[-1:]
    assert trial.cpu_s == 2.0  # both count


def test_no_clean_session_starts_where_nothing_asks_for_it(lesson, sessions):
    answered = release(lesson)
    exercises(answered)["double"].source = "def double(x):\n    return x + x"
    Trial(answered, lesson, Judge(), Limits()).run()
    assert len(sessions) == 1


def test_what_ends_the_clean_session_costs_its_exercise_alone(lesson, sessions):
    answered = release(lesson)
    for name in ("double", "negate"):
        exercises(answered)[name].source = f"def {name}(x):\n    return x"
    judge = Reader(crashes="double")
    found = Trial(answered, lesson, judge, Limits()).run()
    assert judge.ended == {"double": [None, "died"], "negate": [None, None]}
    assert found["negate"].outcome is Outcome.PASSED


class Strict:
    """Asks about each exercise once and finds it wrong."""

    material = dict.fromkeys(("setup", "definitions", "functions", "checks"))

    def check(self, name, ask, to_beat):
        ask({"function": name})
        found = {"verdict": "FAILED", "message": "", "share": 0.0}
        return found | {"statements": [], "details": []}


def wrong(lesson, **sources):
    """Answers with functions that return their argument, and what comes before them."""
    answered = release(lesson)
    for name in ("double", "negate"):
        own = f"def {name}(x):\n    return x"
        exercises(answered)[name].source = sources.get(name, "") + own
    return answered


def tried(lesson, answered, sessions, **options):
    """Returns what each session ran of the learner's: cells, and "?" for a question."""
    Trial(answered, lesson, Strict(), Limits(), **options).run()
    names = {cell.source: name for name, cell in exercises(answered).items()}
    return [
        [names.get(cell, "?") for cell in cells if cell in names or "answer(" in cell]
        for cells in sessions
    ]


def test_answers_that_cannot_spoil_each_other_are_tried_once(lesson, sessions):
    imports = '"""Uses nothing."""\nimport jax.numpy as jnp\n\n\n'
    answered = wrong(lesson, double=imports, negate=imports)
    both = ["double", "negate", "?", "?"]
    assert tried(lesson, answered, sessions) == [both]


@pytest.mark.parametrize(
    "above",
    [
        "def negate(x):\n    return 1\n\n\n",
        "import math as jax\n\n\n",  # as the set-up cell does not mean it
        "def abs(x):\n    return x\n\n\n",
    ],
    ids=["a function", "a module", "a builtin"],
)
def test_where_names_have_two_meanings_one_more_session_tries_all_that_failed(
    lesson, sessions, above
):
    cell = nbformat.v4.new_code_cell("import jax", id="own-cell")
    solved = copy.deepcopy(lesson)
    solved.cells.insert(1, cell)
    answered = wrong(solved, double=above)
    both, again = tried(solved, answered, sessions)
    assert both == ["double", "negate", "?", "?"]
    assert again == ["double", "?", "negate", "?"]


def test_an_added_cell_lets_one_more_session_try_all_that_failed(lesson, sessions):
    answered = wrong(lesson)
    added = nbformat.v4.new_code_cell("y = 1", id="extra-0")
    answered.cells.insert([c.id for c in answered.cells].index("negate"), added)
    both, again = tried(lesson, answered, sessions)
    assert both == ["double", "negate", "?", "?"]
    assert again == ["double", "?", "negate", "?"]
    assert "y = 1" in sessions[0] and "y = 1" in sessions[1]


def test_code_that_was_left_out_lets_failures_be_tried_again(lesson, sessions):
    answered = wrong(lesson)
    _, again = tried(lesson, answered, sessions, left_out=["y = 1"])
    assert again == ["double", "?", "negate", "?"]


@pytest.mark.parametrize(
    "does",
    ["import math\nmath.trunc = None\n\n\n", "from math import *\n\n\n", "%time 1\n"],
    ids=["assigns", "star", "magic"],
)
def test_a_cell_that_does_more_than_define_shares_no_second_session(
    lesson, sessions, does
):
    answered = wrong(lesson, double=does)
    both, first, second = tried(lesson, answered, sessions)
    assert both == ["double", "negate", "?", "?"]
    assert (first, second) == (["double", "?"], ["negate", "?"])
    assert not any(does in cell for cell in sessions[2])
