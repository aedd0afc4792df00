"""The handbook asks about every exercise what only those who understand it can say."""

import re

import pytest

from grader import ROOT
from grader.authoring.check_source import read_checks
from grader.lessons.release import lesson_number, lesson_paths

PAGE = (ROOT / "docs" / "handbook" / "oral-questions.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"(?m)^\*\*(\d+\.\d+ `\w+`)\*\*$", PAGE.split("\n## Lesson 1\n")[1])
QUESTIONS = dict(zip(SECTIONS[1::2], SECTIONS[2::2], strict=True))


def test_each_exercise_has_its_questions_in_the_order_of_the_lessons():
    wanted = [
        f"{lesson_number(path.stem)}.{place} `{name}`"
        for path in lesson_paths()
        for place, name in enumerate(
            read_checks(ROOT / "solutions" / "checks" / path.name), 1
        )
    ]
    assert list(QUESTIONS) == wanted


@pytest.mark.parametrize("exercise", QUESTIONS)
def test_an_exercise_has_two_or_three_questions_each_with_its_answer(exercise):
    items = re.findall(r"(?ms)^- (.*?)(?=^- |^#|\Z)", QUESTIONS[exercise])
    assert 2 <= len(items) <= 3
    for item in items:
        question, _ = re.fullmatch(r"(?s)(.+[?.])\s+\*([^*].+)\*\s*", item).groups()
        assert "?" in question or question.startswith(("Say", "Show"))
