"""The corpus hides what it should, and guards what is dangerous outside of a box."""

import functools
import re
from pathlib import Path

import pytest
from hostile import build, corpus_lesson
from hostile.build import FULL, GUARD
from nbformat import NotebookNode

from grader.authoring.lesson import read_lesson
from grader.lessons.release import checks, exercises, release

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


def test_dangerous_code_is_guarded(lesson):
    found = {}
    for case in build.cases():
        own = case.lesson == corpus_lesson.NAME
        answered = lesson if own else of_course(case.lesson)
        submitted = case.submission(answered)
        if not isinstance(submitted, NotebookNode) or case.name in MILD:
            continue
        sources = {str(c.source) for c in submitted.cells if c.cell_type == "code"}
        for source in sources - {str(c.source) for c in release(answered).cells}:
            body = re.sub(r"\A# exercise: \w+\n", "", source)
            if not body.startswith(GUARD) and (GUARD in body or DANGEROUS.search(body)):
                found[case.name] = body
    assert found == {}


def test_guard_stops_everything_outside_of_the_containment(monkeypatch):
    monkeypatch.delenv("COURSE_CONTAINED", raising=False)
    with pytest.raises(SystemExit, match="only inside the containment"):
        exec(build.guarded("raise AssertionError('went on')"), {})
