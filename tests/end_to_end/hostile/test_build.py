"""Each case of the corpus builds, says what it expects, guards what is dangerous."""

import functools
import json
import os
import re
from pathlib import Path

import pytest
from hostile import build, corpus_lesson
from hostile.build import FULL, GUARD
from nbformat import NotebookNode

from grader.authoring.lesson import read_lesson
from grader.authoring.release import checks, exercises, release
from grader.results import Status

CASES = {case.name: case for case in build.cases()}
HOSTILE = [name for name in CASES if not name.startswith("harmless/")]
HARMLESS = [name for name in CASES if name.startswith("harmless/")]
DANGEROUS = re.compile(
    r"\bfork|\bsubprocess\b|\bsocket\b|/proc/|\bos\.(_exit|kill|abort|closerange|write)\b"
    r"|\bsignal\b|\bctypes\b|10\*\*[89]|2\*\*(2[6-9]|3\d)|\bwrite_text\b|\bquit\(|/etc\b"
)
# Harmless uses of what the pattern above looks for.
MILD = {"harmless/stderr_noise"}


SOLUTIONS = Path(__file__).resolve().parents[3] / "solutions"


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    root = tmp_path_factory.mktemp("course") / "course"
    return read_lesson(corpus_lesson.write_course(root), "https://example.org/a/b")


@functools.cache
def of_course(name):
    return read_lesson(SOLUTIONS / f"{name}.py", "https://example.org/a/b")


@pytest.fixture
def answered(name, lesson):
    """The lesson that a case answers."""
    case = CASES[name]
    return lesson if case.lesson == corpus_lesson.NAME else of_course(case.lesson)


def test_lesson_has_four_exercises_with_hidden_tests(lesson):
    points = {name: c.metadata.nbgrader.points for name, c in checks(lesson).items()}
    assert points == FULL
    hidden = [c.source for c in checks(lesson).values() if "BEGIN HIDDEN" in c.source]
    assert len(hidden) == len(FULL)


def test_needle_is_only_in_what_is_hidden(lesson):
    assert corpus_lesson.NEEDLE in str(lesson)
    assert corpus_lesson.NEEDLE not in str(release(lesson))
    assert corpus_lesson.NEEDLE not in str(build.solved(lesson))


def test_solved_lesson_holds_all_answers(lesson):
    cells = exercises(build.solved(lesson)).items()
    assert {n: c.source.partition("\n")[2] for n, c in cells} == build.ANSWERS


def test_corpus_is_large():
    assert len(HOSTILE) >= 90
    assert len(HARMLESS) >= 34
    assert {name.split("/")[0] for name in CASES} == set(build.FOLDERS)
    assert len({name.split("/")[1] for name in CASES}) == len(CASES)
    assert sum(case.tampering for case in CASES.values()) >= 40


@pytest.mark.parametrize("name", CASES)
def test_case_builds(name, answered, tmp_path):
    case, lesson = CASES[name], answered
    text = case.path.read_text(encoding="utf-8")
    assert re.match(r'"""[A-Z0-9].*\.', text)
    before = lesson == lesson and json.dumps(lesson)
    folder = tmp_path / "01_tiny"
    build.write(case, lesson, folder)
    assert json.dumps(lesson) == before
    assert os.listdir(folder)


@pytest.mark.parametrize("name", CASES)
def test_case_expects_points_that_fit_its_status(name):
    case = CASES[name]
    status = case.statuses[0]
    assert len(set(case.statuses)) == len(case.statuses)
    if case.lesson == corpus_lesson.NAME:
        assert list(case.points) == list(FULL)
        assert all(points in (0, FULL[n]) for n, points in case.points.items())
    if name in HARMLESS:
        assert status in (Status.GRADED, Status.GRADED_WITH_NOTE)
        assert case.points == FULL
        assert not case.tampering
    if case.tampering and status is not Status.NEEDS_REVIEW:
        assert case.points != FULL


@pytest.mark.parametrize("name", CASES)
def test_dangerous_code_is_guarded(name, answered):
    submitted = CASES[name].submission(answered)
    if not isinstance(submitted, NotebookNode) or name in MILD:
        return
    sources = {str(c.source) for c in submitted.cells if c.cell_type == "code"}
    for source in sources - {str(c.source) for c in release(answered).cells}:
        body = re.sub(r"\A# exercise: \w+\n", "", source)
        if GUARD in body:
            assert body.startswith(GUARD)
        else:
            assert not DANGEROUS.search(body), DANGEROUS.search(body)


def test_guard_stops_everything_outside_of_the_containment(monkeypatch):
    monkeypatch.delenv("COURSE_CONTAINED", raising=False)
    with pytest.raises(SystemExit, match="only inside the containment"):
        exec(build.guarded("raise AssertionError('went on')"), {})
