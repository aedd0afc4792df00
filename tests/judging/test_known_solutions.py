"""What solutions do is observed once for a class; learners' boxes hold none of it."""

import contextlib
import copy
import json
import pickle

import pytest
import tiny

from coursekit import reference_checks
from coursekit.observe import observe
from grader.authoring.release import exercises
from grader.containment.limits import Limits
from grader.judging import known_solutions
from grader.judging.judge import Judge
from grader.judging.judge_process import JudgeError, JudgeProcess, material
from grader.kernel.inside.wire import decode, encode_observation
from grader.kernel.session import Session
from grader.workers.cache_key import lesson_hashes
from grader.workers.job_grader import JobGrader
from grader.workers.jobs import Job

HIDDEN = """\
@hidden("double")
def cases_of_double():
    def cases(rng):
        yield Case(3)
        yield Case(int(rng.integers(10, 99)))

    free = {"error layout collectives sent arrays compiles arguments": "plain numbers"}
    expect_like_solution(double, cases, value="twice", free=free)
"""
OWN = tiny.CHECKS[tiny.CHECKS.index('@hidden("double")') :].partition("\n\n\n")[0]
IMPORTS = """\
from coursekit.hidden_cases import Case
from coursekit.reference_checks import expect_like_solution
from coursekit.learner import"""
CHECKS = tiny.changed(
    tiny.CHECKS, (OWN, HIDDEN), ("from coursekit.learner import", IMPORTS)
)
# The solution tells, wherever it runs, that it does.
TELLS = """\
def double(x):
    __import__("builtins").calls_of_the_solution.append(x)
    return 2 * x"""
RIGHT = "PASSED"


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return tiny.lesson(tmp_path_factory.mktemp("course") / "course", checks=CHECKS)


@pytest.fixture
def calls(monkeypatch):
    """The arguments with which the solution was called in this process."""
    calls = []
    monkeypatch.setattr("builtins.calls_of_the_solution", calls, raising=False)
    monkeypatch.setattr(reference_checks, "_known", {})
    return calls


def telling(lesson):
    changed = copy.deepcopy(lesson)
    exercises(changed)["double"].source = TELLS
    return changed


def honest(question):
    """Answers as the process of a learner who has solved `double`."""
    arguments = decode(question["arguments"])
    facts = encode_observation(observe(lambda x: x + x, *arguments))
    reply = {"seen": facts, "after": question["arguments"]["list"]}
    return {"answer": json.dumps(reply | {"id": question["id"]})}


def judge_of(lesson, known):
    """Makes a judge in this process, whose questions are answered honestly."""
    sent = []
    facts = material(lesson) | {"known": str(known)}
    return Judge(sent.append, lambda: honest(sent[-1]["ask"]), **facts)


def test_a_judge_that_finds_what_solutions_do_runs_none(lesson, calls, tmp_path):
    known, lesson = tmp_path / "known.pickle", telling(lesson)
    judge_of(lesson, "").learn(known)
    assert len(calls) >= 2
    reference_checks._known.clear()
    calls.clear()
    judge = judge_of(lesson, known)
    assert judge.check("double")["verdict"] == RIGHT
    assert calls == []


@pytest.mark.parametrize("data", [None, b"", b"no pickle", pickle.dumps((1, 2))])
def test_without_a_file_or_with_a_broken_one_it_runs_them(
    data, lesson, calls, tmp_path
):
    known = tmp_path / "known.pickle"
    if data is not None:
        known.write_bytes(data)
    assert judge_of(telling(lesson), known).check("double")["verdict"] == RIGHT
    assert len(calls) >= 2


def test_what_is_known_of_a_solution_still_refuses_wrong_answers(
    lesson, calls, tmp_path
):
    known = tmp_path / "known.pickle"
    judge_of(lesson, "").learn(known)
    judge, sent = judge_of(lesson, known), []

    def thrice(question):
        facts = encode_observation(
            observe(lambda x: 3 * x, *decode(question["arguments"]))
        )
        reply = {"seen": facts, "after": question["arguments"]["list"]}
        return {"answer": json.dumps(reply | {"id": question["id"]})}

    judge.send, judge.receive = sent.append, lambda: thrice(sent[-1]["ask"])
    assert judge.check("double")["verdict"] == "FAILED"


def test_a_solution_that_fails_its_check_is_no_measure(lesson, calls, tmp_path):
    known, changed = tmp_path / "known.pickle", copy.deepcopy(lesson)
    wrong = (
        "expect_close(observe(double, 3), 6)",
        "expect_close(observe(double, 3), 7)",
    )
    changed.metadata["checks"] = tiny.changed(changed.metadata["checks"], wrong)
    with pytest.raises(RuntimeError, match="double, as solved: The result is"):
        judge_of(changed, "").learn(known)
    assert not known.exists()


def test_a_class_fills_it_once_and_another_class_has_another(
    lesson, contained_here, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    other = copy.deepcopy(lesson)
    other.metadata["seed"] = 7
    files = []
    for one in (lesson, other):
        hashes = lesson_hashes(one, Limits())
        job = Job("ada", tiny.NAME, None, hashes | {"submission": "a"})
        limits = Limits()
        with contextlib.closing(
            JobGrader({tiny.NAME: one}, limits, trusted=False)
        ) as grader:
            assert grader.known(job) is None
            grader.fill_cache(job)
            job.hashes["submission"] = "b"  # another learner's
            files.append(grader.known(job))
            written = files[-1].stat().st_mtime_ns
            grader.fill_cache(job)
            assert files[-1].stat().st_mtime_ns == written
    assert None not in files and files[0] != files[1]
    with contextlib.closing(JudgeProcess(lesson, known=files[0])) as judge:
        assert judge.check("double", honest)["verdict"] == RIGHT


def test_a_judge_that_cannot_write_it_says_why(lesson, tmp_path):
    (tmp_path / "file").touch()
    judge = JudgeProcess(lesson, trusted=True)
    with pytest.raises(JudgeError, match="Error"):
        judge.learn(tmp_path / "file" / "known.pickle")
    assert judge.kill is None


def test_no_learner_sees_it(contained_here):
    code = f"import os; print(os.path.exists({known_solutions.INSIDE!r}))"
    with Session(Limits(wall_s=40)) as session:
        assert session.run(code).text == "False\n"
